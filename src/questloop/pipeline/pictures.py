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
    strip = Image.new("RGB", (len(chosen) * (ROOM_WIDTH + 4) - 4, 144 + 16), (20, 22, 27))
    draw = ImageDraw.Draw(strip)
    for index, (step, data) in enumerate(chosen):
        left = index * (ROOM_WIDTH + 4)
        strip.paste(_open(data), (left, 16))
        draw.text((left + 3, 0), f"step {step}", fill=(225, 228, 232), font_size=14)
    return _png(strip)


def line_chart(
    series: Sequence[Series],
    ylabel: str,
    boundaries: Sequence[float] = (),
    xlabel: str = "environment steps",
) -> str:
    """An inline SVG that takes the page's text colour. `boundaries` are epoch starts, drawn as thin lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 2.9), layout="constrained")
    axes = figure.subplots()
    for line, colour in zip(series, _COLOURS, strict=False):
        marker = "o" if len(line.x) < 12 else None
        axes.plot(line.x, line.y, label=line.label, color=colour, linewidth=1.8, marker=marker, markersize=4)
    for boundary in boundaries:
        axes.axvline(boundary, color=_TEXT, linewidth=0.7, alpha=0.35, linestyle=":")
    axes.set_xlabel(xlabel, color=_TEXT)
    axes.set_ylabel(ylabel, color=_TEXT)
    axes.tick_params(colors=_TEXT, labelsize=8)
    axes.xaxis.set_major_formatter(_thousands)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_TEXT)
    axes.grid(axis="y", alpha=0.2, linewidth=0.6)
    if len(series) > 1:
        axes.legend(frameon=False, fontsize=8, labelcolor=_TEXT)
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
    axes.set_xlabel("predicted", color=_TEXT)
    axes.set_ylabel("observed", color=_TEXT)
    axes.tick_params(colors=_TEXT, labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_TEXT)
    return _themed(figure)


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
        canvas.paste(Image.new("RGB", (ROOM_WIDTH, 6), _HEAT), (left, top + ROOM_HEIGHT - 6), _bar_mask(heat))
        label = f"{room[0]}:{room[1]:02X}  {visits[room]:,}"
        draw.rectangle(
            (left, top, *draw.textbbox((left + 6, top + 3), label, font_size=13)[2:]), fill=(0, 0, 0)
        )
        draw.text((left + 3, top), label, fill=(255, 255, 255), font_size=13)
        draw.rectangle((left, top, left + ROOM_WIDTH - 1, top + ROOM_HEIGHT - 1), outline=(15, 17, 21))
    return _png(canvas)


def _bar_mask(share: float) -> Image.Image:
    mask: NDArray[np.uint8] = np.zeros((6, ROOM_WIDTH), np.uint8)
    mask[:, : max(2, round(share * ROOM_WIDTH))] = 255
    return Image.fromarray(mask, "L")


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
