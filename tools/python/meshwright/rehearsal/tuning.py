"""Inductor's choice among kernels: on GPUs that are not there all take as long, so the first one is taken untried.

Trying them means to compile each, which takes longer than the rest of a rehearsal.
"""

from __future__ import annotations

from typing import Any

from .after_import import after_import

__all__ = ["take_first_choices"]


def take_first_choices() -> None:
    after_import("torch._inductor.select_algorithm", _change)


def _change(module: Any) -> None:
    cache = module.AlgorithmSelectorCache
    select = cache.__call__

    def selected(itself: Any, name: str, choices: Any, *rest: Any, **more: Any) -> Any:
        return select(itself, name, choices[:1], *rest, **more)

    cache.__call__ = selected
