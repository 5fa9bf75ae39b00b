"""The result of an audit: findings by kind, with the object each concerns."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from questloop.episodes.segment import Manifest
from questloop.storage.commit import Commit
from questloop.storage.keys import Stage


class Kind(StrEnum):
    """What can be wrong."""

    ORPHAN = "orphan"
    MISSING = "missing"
    BAD_HASH = "bad_hash"
    DUPLICATE = "duplicate"
    BAD_DOCUMENT = "bad_document"
    LINEAGE = "lineage"
    SPOILT = "spoilt"


_HARMLESS = (Kind.ORPHAN, Kind.SPOILT)


@dataclass(frozen=True)
class AuditFinding:
    """Something wrong, and where."""

    kind: Kind
    key: str
    detail: str
    epoch: int | None = None  # whose result it harms; None: of none alone


@dataclass
class Audit:
    """What an audit found.

    A store with orphans is well: those are what a stage that was killed left behind, and no reader sees them.
    What is spoilt no result depends on; it is repaired by taking it away.
    """

    segments: int = 0
    scores: int = 0
    models: int = 0
    findings: list[AuditFinding] = field(default_factory=list)
    commits: dict[tuple[int, Stage], Commit] = field(default_factory=dict, repr=False)
    manifests: dict[str, Manifest] = field(default_factory=dict, repr=False)  # of whole segments, by id
    retired: frozenset[int] = frozenset()
    repaired: bool = False
    """orphans and what was spoilt are gone"""

    def found(self, kind: Kind, key: str, detail: str, epoch: int | None = None) -> None:
        """Note something wrong, once."""
        finding = AuditFinding(kind, key, detail, epoch)
        if finding not in self.findings:
            self.findings.append(finding)

    def sort(self) -> None:
        """Order the findings by kind and key."""
        self.findings.sort(key=lambda finding: (finding.kind, finding.key, finding.detail))

    @property
    def first_harmed(self) -> int | None:
        """The first epoch whose results are not whole; None: all are, or a fault is of no epoch."""
        harmed = [finding.epoch for finding in self.findings if finding.kind not in _HARMLESS]
        known = [epoch for epoch in harmed if epoch is not None]
        return min(known) if known and len(known) == len(harmed) else None

    @property
    def whole(self) -> bool:
        """Whether every result is: what was found harms none."""
        return all(finding.kind in _HARMLESS for finding in self.findings)

    @property
    def ok(self) -> bool:
        """Whether every result is whole, and nothing that was spoilt is left."""
        return self.whole and (self.repaired or not self.spoilt)

    @property
    def orphans(self) -> tuple[str, ...]:
        """Keys of the objects that no commit lists."""
        return self._keys_of(Kind.ORPHAN)

    @property
    def spoilt(self) -> tuple[str, ...]:
        """Keys of the damaged objects on which no result depends."""
        return self._keys_of(Kind.SPOILT)

    def _keys_of(self, kind: Kind) -> tuple[str, ...]:
        return tuple(finding.key for finding in self.findings if finding.kind is kind)

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
            "spoilt": counts[Kind.SPOILT],
            "ok": self.ok,
            "findings": [asdict(finding) | {"kind": finding.kind.value} for finding in self.findings],
        }
