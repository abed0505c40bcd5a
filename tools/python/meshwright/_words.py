"""Numbers as people read them, as in the tables of the command line."""

from typing import Callable, Optional


def seconds(value: float) -> str:
    if value < 1e-3:
        return "{:.1f} us".format(value * 1e6)
    if value < 1:
        return "{:.1f} ms".format(value * 1e3)
    return ("{:.3f} s" if value < 600 else "{:.0f} s").format(value)


def duration(value: float) -> str:
    if value >= 48 * 3600:
        return "{:.1f} days".format(value / (24 * 3600))
    if value >= 3600:
        return "{:.1f} h".format(value / 3600)
    return "{:.1f} min".format(value / 60) if value >= 120 else seconds(value)


def size(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return ("{:.0f} {}" if unit == "B" else "{:.1f} {}").format(value, unit)
        value /= 1024
    return "{:.1f} TiB".format(value)


def usd(value: float) -> str:
    return ("${:.2f}" if abs(value) < 100 else "${:.0f}").format(value).replace("$-", "-$")


def small_usd(value: float) -> str:
    return "${:.4f}".format(value)


def percent(value: float) -> str:
    return "{:.1f} %".format(value * 100)


def number(value: float) -> str:
    return "{:.0f}".format(value)


def shown(value: Optional[float], words: Callable[[float], str]) -> str:
    """The value in these words; `-` where there is none."""
    return "-" if value is None else words(value)
