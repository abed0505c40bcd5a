"""What a script is told of a name that the library has and this package does not."""

from __future__ import annotations

from typing import Any, Callable

__all__ = ["Refused", "refused"]


class Refused(NotImplementedError):
    """A name or a use of it is refused. The text says why, and what to do instead."""


def refused(name: str, reason: str) -> Callable[..., Any]:
    """A callable of this name that can be imported, and whose call is refused with the reason."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise Refused("smp.{}: {}".format(name, reason))

    refuse.__name__ = refuse.__qualname__ = name.rsplit(".", 1)[-1]
    refuse.__doc__ = "Refused: {}.".format(reason)
    refuse.refused = reason  # type: ignore[attr-defined]
    return refuse
