"""Which judge scores what, by which prompt, and the fingerprint of everything that decides a score."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from questloop.judges import states
from questloop.llm.routes import Role

PROMPT_VERSION = "v1"
TEMPERATURE = 0.7
MAX_REPLY_TOKENS = 220
STEPS = [step / 20 for step in range(21)]
"""scores that a server with enforced schemas lets a model give; any number from 0 to 1 is read"""


class Criterion(StrEnum):
    """What a segment is judged by; each is owned by one judge."""

    PROGRESS = "progress"
    DIALOG = "dialog"
    PUZZLE = "puzzle"
    NOVELTY = "novelty"
    EFFICIENCY = "efficiency"


WEIGHTS = {
    Criterion.PROGRESS: 0.4,
    Criterion.DIALOG: 0.2,
    Criterion.PUZZLE: 0.2,
    Criterion.NOVELTY: 0.1,
    Criterion.EFFICIENCY: 0.1,
}


@dataclass(frozen=True)
class Judge:
    """One of the three roles."""

    name: str
    role: Role
    criteria: tuple[Criterion, ...]
    pictures: bool = False
    reads: str = ""
    """version of the text of a state; empty for judges of segments"""
    guide: str = ""
    """the game's guide, by which every prompt begins"""

    @property
    def prompt(self) -> str:
        """The system message: the same for every case, so that a server's prefix cache serves it.

        The guide comes first: all judges of a game share that prefix.
        """
        own = read_prompt(f"{self.name}.md")
        return f"{self.guide.strip()}\n\n{own}" if self.guide else own

    def guided(self, guide: str) -> Judge:
        """The same judge, who reads `guide` first."""
        return replace(self, guide=guide)

    @property
    def fields(self) -> tuple[str, ...]:
        """Keys of a valid answer."""
        return (*self.criteria, "overall")

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of an answer. The reason comes first: what is written first bears on what follows.

        Scores are an enumeration, since servers that enforce a schema ignore the range of a number.
        """
        properties: dict[str, Any] = {"reason": {"type": "string", "maxLength": 160}}
        properties |= {name.value: {"enum": [*STEPS, None]} for name in self.criteria}
        properties["overall"] = {"enum": STEPS}
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }


STATE = Judge("state", Role.STATE, (Criterion.PROGRESS, Criterion.DIALOG, Criterion.EFFICIENCY))
PUZZLE = Judge("puzzle", Role.PUZZLE, (Criterion.PUZZLE,))
VISION = Judge("vision", Role.VISION, (Criterion.NOVELTY,), pictures=True)
JUDGES = (STATE, PUZZLE, VISION)
PAIRWISE = Judge("pairwise", Role.STATE, ())
"""its `overall` is the probability that the first of two segments is the better one"""
CELL = Judge("cell", Role.STATE, (), reads=states.VERSION)
"""its `overall` is how far along the quest a state is"""
NEARER = Judge("nearer", Role.STATE, (), reads=states.VERSION)
"""its `overall` is the probability that the first of two states is nearer to the end of the quest"""


@cache
def read_prompt(name: str) -> str:
    """A prompt file of the version in force."""
    return files("questloop.judges").joinpath("prompts", PROMPT_VERSION, name).read_text("utf-8").strip()


def fingerprint(parts: dict[str, Any]) -> str:
    """SHA-256, 16 hex digits, of everything in `parts`.

    >>> fingerprint({"model": "a"}) == fingerprint({"model": "a"}) != fingerprint({"model": "b"})
    True
    """
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
