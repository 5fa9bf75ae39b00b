"""Synthetic segments: a random walk with rooms, damage, dialogs and finds, in the form of the exporter."""

from __future__ import annotations

import io
import random
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from PIL import Image, ImageDraw

from questloop.judges.selection import SegmentInfo


@dataclass
class FakeSegment:
    segment_id: str
    episode_id: str
    states: list[dict[str, Any]]
    pictures: dict[int, bytes] = field(default_factory=dict)

    def png(self, step: int) -> bytes | None:
        return self.pictures.get(step)


@cache
def picture(room: int) -> bytes:
    """A room's picture: its own pattern of blocks."""
    rng = random.Random(room)
    image = Image.new("RGB", (160, 144), (rng.randrange(256), rng.randrange(256), rng.randrange(256)))
    draw = ImageDraw.Draw(image)
    for _ in range(12):
        x, y = rng.randrange(10) * 16, rng.randrange(9) * 16
        draw.rectangle(
            (x, y, x + 15, y + 15), fill=(rng.randrange(256), rng.randrange(256), rng.randrange(256))
        )
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def state(**changes: Any) -> dict[str, Any]:
    """As `GameState.to_json` writes it: what is zero or absent is left out."""
    base = {"room": "0:10", "pos": [72, 64], "face": "up", "health": [12, 12]} | changes
    return {key: value for key, value in base.items() if value or (key == "text" and value is not None)}


def line(step: int, current: dict[str, Any], png: str | None = None) -> dict[str, Any]:
    return {
        "step": step, "frame": step * 4, "action": 0, "rewards": {"room": 98777.25}, "state": current,
        "mode": "policy", "png": png,
    }  # fmt: skip


def segment(index: int, episode: int = 0, length: int = 300, seed: int = 0) -> FakeSegment:
    """A walk; `skill` grows with a hash of the index, so segments differ in what they reach."""
    rng = random.Random(f"{seed}:{episode}:{index}")
    skill = rng.random()
    now = state()
    lines, pictures = [], {}
    first = index * 300
    for step in range(first, first + length):
        changes: dict[str, Any] = {"text": None}
        if rng.random() < 0.3 + 0.6 * skill:
            dx, dy = rng.choice([(16, 0), (-16, 0), (0, 16), (0, -16)])
            x, y = now["pos"]
            changes["pos"] = [min(max(x + dx, 0), 144), min(max(y + dy, 0), 112)]
        event = rng.random()
        if event < 0.02 * skill:
            changes["room"] = f"0:{rng.randrange(16):02x}"
        elif event < 0.023:
            changes["health"] = [max(now["health"][0] - 2, 1), 12]
        elif event < 0.027 or ("text" in now and rng.random() < 0.8):
            changes["text"] = now.get("text", rng.randrange(5))
        elif event < 0.027 + 0.004 * skill:
            changes["keys"] = now.get("keys", 0) + 1
        elif event < 0.033 and skill > 0.5:
            changes |= {"dungeon": 1, "buttons": now.get("buttons", 0) | 1 << rng.randrange(4)}
        told = changes.get("room", now["room"]) != now["room"] or step % 10 == 0 or step == first + length - 1
        now = state(**(now | changes))
        lines.append(line(step, now, f"frames/{step:06d}.png" if told else None))
        if told:
            pictures[step] = picture(int(now["room"][2:], 16))
    episode_id = f"run-e0000-s{episode:03d}-00000"
    return FakeSegment(f"{episode_id}-{index:05d}-f0001", episode_id, lines, pictures)


def world(episodes: int, segments: int, seed: int = 0) -> dict[str, FakeSegment]:
    made = [segment(index, episode, seed=seed) for episode in range(episodes) for index in range(segments)]
    return {item.segment_id: item for item in made}


def infos(played: dict[str, FakeSegment]) -> list[SegmentInfo]:
    rng = random.Random(0)
    return [
        SegmentInfo(item.segment_id, item.episode_id, novelty=rng.randrange(6), raw_return=rng.random())
        for item in played.values()
    ]
