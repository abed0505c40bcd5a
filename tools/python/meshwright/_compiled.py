"""Finds the compiled module with the commands: `_core` in the wheel, `_runtime` in a build from source."""

import importlib
import importlib.util
from typing import Any

_package = __name__.rpartition(".")[0]


def module() -> Any:
    """`meshwright.torch` is Python only and also works from a checkout, where nothing is compiled, so the module is
    loaded only when a command is called."""
    for name in ("_core", "_runtime"):
        if importlib.util.find_spec(_package + "." + name) is not None:
            return importlib.import_module(_package + "." + name)
    raise ImportError("meshwright is not compiled here: its module _core is missing; install the wheel, or build the "
                      "target python_module")


def version() -> str:
    try:
        text: str = module().version()
    except ImportError:
        return "0+source"
    return text.split()[1]
