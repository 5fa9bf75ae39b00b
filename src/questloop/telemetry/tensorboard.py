"""TensorBoard event files: scalars as records of TFRecord, without TensorFlow or the `tensorboard` package.

The format: a record is its length (u64), the masked CRC-32C of that, the data, and the masked CRC-32C of
those; the data is an `Event` of tensorflow/core/util/event.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_POLYNOMIAL = 0x82F63B78  # Castagnoli, reversed
_MASK = 0xA282EAD8


@dataclass(frozen=True)
class Scalar:
    """A point of a curve; `wall_time` in seconds since 1970."""

    tag: str
    step: int
    value: float
    wall_time: float


def write_events(folder: Path, scalars: Iterable[Scalar], name: str) -> Path:
    """Write `folder/events.out.tfevents.{name}`, in place of an earlier one; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{name}"
    part = path.with_name(f".{path.name}.part")
    scalars = list(scalars)
    began = min((item.wall_time for item in scalars), default=0.0)
    with part.open("wb") as file:
        file.write(_record(_double(1, began) + _bytes(3, b"brain.Event:2")))
        for item in scalars:
            value = _bytes(1, item.tag.encode()) + b"\x15" + struct.pack("<f", item.value)
            event = _double(1, item.wall_time) + b"\x10" + _varint(item.step) + _bytes(5, _bytes(1, value))
            file.write(_record(event))
    part.replace(path)
    return path


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _masked(length)) + data + struct.pack("<I", _masked(data))


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """CRC-32C.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _table_entry(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE = tuple(map(_table_entry, range(256)))
