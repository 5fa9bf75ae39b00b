"""What an audit of a store reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What can be wrong."""

    ORPHAN = "orphan"
    MISSING = "missing"
    BAD_HASH = "bad_hash"
    DUPLICATE = "duplicate"
    BAD_DOCUMENT = "bad_document"
    LINEAGE = "lineage"


@dataclass(frozen=True)
class Finding:
    """Something wrong, and where."""

    kind: Kind
    key: str
    detail: str


@dataclass
class Audit:
    """What an audit found.

    A store with orphans is well: those are what a stage that was killed left behind, and no reader sees them.
    """

    segments: int = 0
    scores: int = 0
    models: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(finding.kind is Kind.ORPHAN for finding in self.findings)

    @property
    def orphans(self) -> tuple[str, ...]:
        return tuple(finding.key for finding in self.findings if finding.kind is Kind.ORPHAN)

    def to_json(self) -> dict[str, Any]:
        """Counts, whether the store is well, and the findings."""
        counts = Counter(finding.kind for finding in self.findings)
        return {
            "segments": self.segments,
            "scores": self.scores,
            "models": self.models,
            "orphans": counts[Kind.ORPHAN],
            "missing": counts[Kind.MISSING],
            "bad_hashes": counts[Kind.BAD_HASH],
            "duplicates": counts[Kind.DUPLICATE],
            "bad_documents": counts[Kind.BAD_DOCUMENT],
            "lineage": counts[Kind.LINEAGE],
            "ok": self.ok,
            "findings": [
                {"kind": finding.kind.value, "key": finding.key, "detail": finding.detail}
                for finding in self.findings
            ],
        }
