"""Pictures of a run: room map with visits, filmstrips of segments, curves. Nothing here touches the store."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

ROOM_WIDTH, ROOM_HEIGHT = 160, 128
OVERWORLD = 0
_UNSEEN = (38, 42, 50)
_HEAT = (255, 122, 26)
_DARK, _LIGHT = (20, 22, 27), (236, 238, 241)
_BAR = 9  # pixels
_SMOOTHED_FROM = 12
_TEXT = "#123456"  # stands for the page's own text colour until `_themed` puts it in

Room = tuple[int, int]  # group, room


@dataclass(frozen=True)
class Series:
    """One line of a chart."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


def overworld_map(visits: Mapping[Room, int], pictures: Mapping[Room, bytes], room_top: int) -> bytes | None:
    """Rooms of group 0 laid out by the nibbles of their number (row high, column low), with their visits.

    `room_top`: first pixel row of the room in a picture. Returns PNG bytes, or None where none was visited.
    """
    rooms = sorted(room for (group, room), count in visits.items() if group == OVERWORLD and count > 0)
    if not rooms:
        return None
    rows, columns = [room >> 4 for room in rooms], [room & 15 for room in rooms]
    places = {room: ((room & 15) - min(columns), (room >> 4) - min(rows)) for room in rooms}
    return _tile_rooms(
        {(OVERWORLD, room): place for room, place in places.items()},
        (max(columns) - min(columns) + 1, max(rows) - min(rows) + 1),
        visits,
        pictures,
        room_top,
    )


def interior_map(visits: Mapping[Room, int], pictures: Mapping[Room, bytes], room_top: int) -> bytes | None:
    """Rooms of every group but 0, in numerical order, eight to a row. PNG bytes or None."""
    rooms = sorted(key for key, count in visits.items() if key[0] != OVERWORLD and count > 0)
    if not rooms:
        return None
    width = min(8, len(rooms))
    places = {room: (index % width, index // width) for index, room in enumerate(rooms)}
    return _tile_rooms(places, (width, math.ceil(len(rooms) / width)), visits, pictures, room_top)


def filmstrip(frames: Sequence[tuple[int, bytes]], most: int = 6) -> bytes | None:
    """At most `most` frames, evenly chosen, first and last among them, each labelled with its step."""
    if not frames:
        return None
    chosen = [frames[i] for i in np.unique(np.linspace(0, len(frames) - 1, most).round().astype(int))]
    strip = Image.new("RGB", (len(chosen) * (ROOM_WIDTH + 4) - 4, 144 + 16), _DARK)
    draw = ImageDraw.Draw(strip)
    for index, (step, data) in enumerate(chosen):
        left = index * (ROOM_WIDTH + 4)
        strip.paste(_open(data), (left, 16))
        draw.text((left + 3, 0), f"step {step}", fill=_LIGHT, font_size=13)
    return _png(strip)


def line_chart(
    series: Sequence[Series],
    ylabel: str,
    boundaries: Sequence[float] = (),
    xlabel: str = "environment steps",
) -> str:
    """An inline SVG that takes the page's text colour. `boundaries` are epoch starts, drawn as thin lines.

    From 12 points on, a line is the mean of five neighbours, over the points themselves, which are faint.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6, 2.7), layout="constrained")
    axes = figure.subplots()
    for line, colour in zip(series, _COLOURS, strict=False):
        if len(line.x) < _SMOOTHED_FROM:
            axes.plot(line.x, line.y, label=line.label, color=colour, linewidth=2, marker="o", markersize=4)
        else:
            axes.plot(line.x, line.y, color=colour, linewidth=1, alpha=0.3)
            axes.plot(line.x, _smooth(line.y), label=line.label, color=colour, linewidth=2.2)
    for number, boundary in enumerate(boundaries, 1):
        axes.axvline(boundary, color=_TEXT, linewidth=0.8, alpha=0.4, linestyle=":")
        if len(boundaries) <= 8:
            top = axes.get_xaxis_transform()
            axes.text(boundary, 1.0, f" epoch {number}", transform=top, color=_TEXT, fontsize=8, va="top")
    axes.set_xlabel(xlabel, color=_TEXT, fontsize=9)
    axes.set_ylabel(ylabel, color=_TEXT, fontsize=9)
    axes.xaxis.set_major_formatter(_thousands)
    axes.grid(axis="y", alpha=0.2, linewidth=0.6)
    if len(series) > 1:
        axes.legend(frameon=False, fontsize=8, labelcolor=_TEXT)
    _dress(axes)
    return _themed(figure)


def calibration_chart(predicted: Sequence[float], observed: Sequence[float], counts: Sequence[int]) -> str:
    """Reward model: predicted against observed preference, a dot a bin, its size the number of pairs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.6, 2.9), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=_TEXT, alpha=0.4, linewidth=0.8, linestyle=":")
    largest = max(counts, default=1) or 1
    sizes = [20 + 120 * count / largest for count in counts]
    axes.scatter(predicted, observed, s=sizes, color=_COLOURS[0], alpha=0.85)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.set_xlabel("predicted", color=_TEXT, fontsize=9)
    axes.set_ylabel("observed", color=_TEXT, fontsize=9)
    _dress(axes)
    return _themed(figure)


def _dress(axes) -> None:  # type: ignore[no-untyped-def]
    axes.tick_params(colors=_TEXT, labelsize=8.5, length=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_TEXT)
    axes.spines[["left", "bottom"]].set_alpha(0.4)


def _smooth(values: Sequence[float]) -> NDArray[np.float64]:
    """The mean of up to five neighbours, fewer at the ends."""
    kernel = np.ones(5)
    return np.convolve(values, kernel, "same") / np.convolve(np.ones(len(values)), kernel, "same")


_COLOURS = ("#e2711d", "#2a7f9e", "#6a9f58", "#a05195", "#b8860b")


def _tile_rooms(
    places: Mapping[Room, tuple[int, int]],
    size: tuple[int, int],
    visits: Mapping[Room, int],
    pictures: Mapping[Room, bytes],
    room_top: int,
) -> bytes:
    canvas = Image.new("RGB", (size[0] * ROOM_WIDTH, size[1] * ROOM_HEIGHT), _UNSEEN)
    draw = ImageDraw.Draw(canvas)
    most = max(visits[room] for room in places)
    for room, (column, row) in places.items():
        left, top = column * ROOM_WIDTH, row * ROOM_HEIGHT
        if room in pictures:
            picture = _open(pictures[room]).crop((0, room_top, ROOM_WIDTH, room_top + ROOM_HEIGHT))
            canvas.paste(picture, (left, top))
        # a logarithm, since the first room sees a thousand times the visits of the last
        heat = math.log1p(visits[room]) / math.log1p(most)
        bar_top = top + ROOM_HEIGHT - _BAR
        draw.rectangle((left, bar_top, left + ROOM_WIDTH - 1, top + ROOM_HEIGHT - 1), fill=_DARK)
        draw.rectangle((left, bar_top + 2, left + heat * (ROOM_WIDTH - 1), top + ROOM_HEIGHT - 1), fill=_HEAT)
        label = f"{room[0]}:{room[1]:02x}   {visits[room]:,}"
        draw.rectangle((left, top, left + ROOM_WIDTH - 1, top + 15), fill=_DARK)
        draw.text((left + 5, top), label, fill=_LIGHT, font_size=13)
        draw.rectangle((left, top, left + ROOM_WIDTH - 1, top + ROOM_HEIGHT - 1), outline=_DARK)
    return _png(canvas)


def _open(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data)).convert("RGB")


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _thousands(value: float, _position: float) -> str:
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def _themed(figure) -> str:  # type: ignore[no-untyped-def]
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context(
        {"svg.fonttype": "none", "font.family": "sans-serif", "svg.hashsalt": "questloop"}
    ):
        figure.savefig(
            buffer,
            format="svg",
            transparent=True,
            metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")),
        )
    svg = buffer.getvalue()
    return svg[svg.index("<svg") :].replace(_TEXT, "currentColor")
