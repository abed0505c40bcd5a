"""Pictures of an answer as SVG, in the colours of the text around them."""

from html import escape
from typing import List, Mapping, NamedTuple, Sequence

colours = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#eeca3b", "#72b7b2", "#b279a2", "#9d755d", "#bab0ac")
width, left, right = 640, 90, 20


def _svg(height: float, drawing: str, caption: str, keys: Sequence[str] = ()) -> str:
    named = "".join('<span style="white-space:nowrap;margin-right:1em"><i style="display:inline-block;width:.8em;height:.8em;'
                    'background:{}"></i> {}</span>'.format(colours[i % len(colours)], escape(key))
                    for i, key in enumerate(keys))
    return ('<figure style="margin:.6em 0"><figcaption>{}</figcaption><svg role="img" viewBox="0 0 {} {:.0f}" '
            'style="width:100%;max-width:{}px;font:12px sans-serif">{}</svg><div style="font-size:85%">{}</div></figure>'
            ).format(escape(caption), width, height, width, drawing, named)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return '<text x="{:.1f}" y="{:.1f}" text-anchor="{}" fill="currentColor">{}</text>'.format(x, y, anchor, escape(text))


def bars(caption: str, rows: Mapping[str, Mapping[str, float]]) -> str:
    """A bar for each row, made of parts side by side; the longest is as wide as the picture."""
    names = [name for name in {name: None for parts in rows.values() for name in parts}
             if any(parts.get(name, 0) > 0 for parts in rows.values())]
    longest = max((sum(parts.get(name, 0) for name in names) for parts in rows.values()), default=0) or 1
    drawing = ""
    for line, (label, parts) in enumerate(rows.items()):
        x, y = float(left), 24.0 * line
        drawing += _text(left - 8, y + 16, label, "end")
        for place, name in enumerate(names):
            long = (width - left - right) * parts.get(name, 0) / longest
            drawing += '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="20" fill="{}"><title>{}</title></rect>'.format(
                x, y + 2, long, colours[place % len(colours)], escape(name))
            x += long
    return _svg(24 * len(rows) + 4, drawing, caption, names)


class Point(NamedTuple):
    x: float
    y: float
    label: str
    chosen: bool = False


def points(caption: str, across: str, up: str, all_points: List[Point]) -> str:
    """Points over two axes that begin at 0; the chosen one is filled, and labels are shown where the mouse is."""
    top, bottom = 12.0, 220.0
    most_x = max(point.x for point in all_points) * 1.05 or 1
    most_y = max(point.y for point in all_points) * 1.1 or 1
    drawing = '<path d="M{0} {1}V{2}H{3}" fill="none" stroke="currentColor" opacity=".4"/>'.format(
        left, top, bottom, width - right)
    for share in (0, 0.5, 1):
        drawing += _text(left + (width - left - right) * share, bottom + 16, "{:.3g}".format(most_x * share), "middle")
        drawing += _text(left - 8, bottom - (bottom - top) * share + 4, "{:.3g}".format(most_y * share), "end")
    drawing += _text(width - right, bottom + 34, across, "end") + _text(left + 8, top + 4, up)
    for point in all_points:
        drawing += '<circle cx="{:.1f}" cy="{:.1f}" r="5" stroke="{}" stroke-width="2" fill="{}"><title>{}</title></circle>'.format(
            left + (width - left - right) * point.x / most_x, bottom - (bottom - top) * point.y / most_y, colours[0],
            colours[0] if point.chosen else "transparent", escape(point.label))
    return _svg(bottom + 40, drawing, caption)
