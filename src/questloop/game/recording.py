"""Writes frames as PNG (the last one), GIF, WebP, or MP4 (extra `video`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from questloop.errors import MissingExtraError, UsageError
from questloop.local_files import written

Frame = NDArray[np.uint8]
"""u8[H, W, 3]: the screen is 144 x 160; H and W times the scale are even in an MP4."""

SCALE = 3
"""Screen pixels a Game Boy pixel, in films and pictures."""

FORMATS = (".png", ".gif", ".webp", ".mp4")


def write_film(path: Path, frames: Iterable[Frame], fps: float, scale: int = SCALE) -> int:
    """Write `frames` to `path` in the format of its suffix, enlarged by `scale`; returns how many there were.

    The file appears when it is whole. Raises `UsageError` for an unknown suffix and `MissingExtraError` where
    MP4 needs PyAV.
    """
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise UsageError(f"--output {path}: a film ends in {', '.join(FORMATS)}")
    part = path.with_name(f".{path.name}.part{path.suffix}")
    try:
        with written(path):
            count = writer(part, (_image(frame, scale) for frame in frames), fps)
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


def _write_png(path: Path, images: Iterable[Image.Image], fps: float) -> int:
    count = 0
    for count, image in enumerate(images, 1):  # noqa: B007 - the last one is what is kept
        pass
    if count:
        image.save(path)
    return _at_least_one(count)


def _write_gif(path: Path, images: Iterable[Image.Image], fps: float) -> int:
    drawn = [image.quantize(colors=64, dither=Image.Dither.NONE) for image in images]
    _at_least_one(len(drawn))
    duration_ms = max(20, round(1000 / fps))
    drawn[0].save(path, save_all=True, append_images=drawn[1:], duration=duration_ms, loop=0)
    return len(drawn)


def _write_webp(path: Path, images: Iterable[Image.Image], fps: float) -> int:
    """Without loss: a game's few colours take less room so than by JPEG's means."""
    drawn = list(images)
    _at_least_one(len(drawn))
    rest, duration_ms = drawn[1:], round(1000 / fps)
    drawn[0].save(
        path, save_all=True, append_images=rest, duration=duration_ms, loop=0, lossless=True, method=4
    )
    return len(drawn)


def _write_mp4(path: Path, images: Iterable[Image.Image], fps: float) -> int:
    try:
        import av
    except ImportError:
        raise MissingExtraError("av", "video") from None
    count = 0
    with av.open(str(path), "w") as film:
        stream = film.add_stream("libx264", rate=round(fps))
        stream.pix_fmt, stream.options = "yuv420p", {"preset": "veryfast", "movflags": "faststart"}
        for count, image in enumerate(images, 1):
            if count == 1:
                stream.width, stream.height = image.size
            film.mux(stream.encode(av.VideoFrame.from_image(image)))
        film.mux(stream.encode())
    return _at_least_one(count)


def _image(frame: Frame, scale: int) -> Image.Image:
    height, width, _ = frame.shape
    return Image.fromarray(frame).resize((width * scale, height * scale), Image.Resampling.NEAREST)


def _at_least_one(count: int) -> int:
    if not count:
        raise UsageError("nothing was played: ask for at least one step")
    return count


_WRITERS = {".png": _write_png, ".gif": _write_gif, ".webp": _write_webp, ".mp4": _write_mp4}
