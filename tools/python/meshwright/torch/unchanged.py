"""Scripts that know nothing of meshwright, under `meshwright launch`."""

from __future__ import annotations

from types import CodeType

__all__ = ["compiled", "prepare"]


def prepare() -> None:
    """Before a script runs."""


def compiled(path: str) -> CodeType:
    """The script's code."""
    with open(path, "rb") as file:
        return compile(file.read(), path, "exec", dont_inherit=True)
