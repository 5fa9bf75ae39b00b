"""Frames as PNG."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, UnidentifiedImageError

from questloop.episodes.trace import Bytes
from questloop.errors import BadDataError


def encode_png(picture: Bytes) -> bytes:
    """A lossless PNG of u8[H, W, 3]."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG", compress_level=1)
    return file.getvalue()


def decode_png(data: bytes, key: str = "picture") -> Bytes:
    """u8[H, W, 3] of a PNG; `BadDataError` for what is none."""
    try:
        return np.asarray(Image.open(io.BytesIO(data), formats=["PNG"]).convert("RGB"))
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise BadDataError(f"{key}: not a PNG: {error}") from None
