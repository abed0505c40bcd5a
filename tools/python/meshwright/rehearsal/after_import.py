"""Changes modules of libraries as soon as they are imported, so that no rehearsal imports what a script does not."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from typing import Any, Callable, Dict, Optional

__all__ = ["after_import"]

_changes: Dict[str, Callable[[Any], None]] = {}


def after_import(name: str, change: Callable[[Any], None]) -> None:
    """Calls `change` with the module `name` before anybody else can use it, or now if it is there."""
    if name in sys.modules:
        change(sys.modules[name])
        return
    _changes[name] = change
    if not isinstance(sys.meta_path[0], _Finder):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[Any]:
        change = _changes.pop(name, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def executed(module: Any) -> None:
            execute(module)
            change(module)

        spec.loader.exec_module = executed   # type: ignore[method-assign]
        return spec
