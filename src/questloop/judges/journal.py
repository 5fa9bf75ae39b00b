"""Keeps what a pass has judged so far in the store, so that it can resume.

An answer's key is its epoch, judge, fingerprint and the hash of its prompt, so the journal of a killed pass
is the cache of every later one.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from questloop.errors import BadDataError, UsageError
from questloop.judges.scores import JudgeScores
from questloop.judges.votes import TRANSPORT
from questloop.storage import keys
from questloop.storage.schema import SchemaVersion
from questloop.storage.store import NotFound, Store


class Journal:
    """Answers of one judge under one fingerprint."""

    def __init__(self, store: Store, folder: str, judge: str, fingerprint: str) -> None:
        """`folder`: `keys.judgements_prefix` of an epoch, or `keys.cell_judgements()`."""
        self._store, self._place = store, (folder, judge, fingerprint)
        listing = store.list(keys.judgement_prefix(folder, judge, fingerprint))
        self._done = {entry.key.rpartition("/")[2].removesuffix(".json") for entry in listing}

    def __contains__(self, content: str) -> bool:
        return content in self._done

    def read(self, content: str) -> JudgeScores:
        """The answer to the prompt of that hash."""
        key = keys.judgement(*self._place, content)
        try:
            return JudgeScores.model_validate_json(self._store.get(key))
        except ValidationError:
            raise BadDataError(f"{key}: not a judgement; delete it and judge again") from None

    def write(self, content: str, scores: JudgeScores) -> None:
        """Keep an answer, unless asking again could mend it: no quorum because requests failed."""
        if not scores.quorum and any(vote.invalid in TRANSPORT for vote in scores.votes):
            return
        key = keys.judgement(*self._place, content)
        self._store.put(key, scores.model_dump_json().encode())
        self._done.add(content)


class PassRecord(BaseModel):
    """`pass.json`: what an epoch is judged under."""

    model_config = ConfigDict(frozen=True)

    schema_version: SchemaVersion = 1
    epoch: int
    fingerprints: dict[str, str]


def open_pass(store: Store, epoch: int, fingerprints: dict[str, str], restart: bool) -> None:
    """Begin or resume the pass over an epoch.

    Raises `UsageError` where it was begun under other fingerprints, since scores of two rubrics do not mix;
    `restart` drops that pass instead.
    """
    key = keys.judge_pass(epoch)
    record = PassRecord(epoch=epoch, fingerprints=fingerprints)
    try:
        begun = PassRecord.model_validate_json(store.get(key))
    except NotFound:
        begun = None
    except ValidationError:
        raise BadDataError(f"{key}: not a judge pass; use --restart to begin anew") from None
    if begun is not None and begun.fingerprints != fingerprints and not restart:
        changed = ", ".join(
            f"{name} was {begun.fingerprints.get(name)} and is {fingerprints.get(name)}"
            for name in sorted(begun.fingerprints | fingerprints)
            if begun.fingerprints.get(name) != fingerprints.get(name)
        )
        raise UsageError(
            f"epoch {epoch} was judged under another fingerprint (rubric, model or votes): {changed}; "
            "go back to the old settings, or judge it anew by `questloop evaluate --restart`"
        )
    if begun != record:
        if begun is not None:
            store.delete([keys.scores(epoch), keys.evaluation(epoch)])
        store.put(key, record.model_dump_json().encode())
