"""Keeps what a pass has judged so far in the store, so that it can resume.

An answer's key is its epoch, judge, fingerprint and the hash of its prompt, so the journal of a killed pass
is the cache of every later one.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from questloop.errors import BadDataError, UsageError, reason_of
from questloop.judges.scores import JudgeScores
from questloop.storage import keys
from questloop.storage.schema import SchemaVersion
from questloop.storage.sealed import seal, unseal
from questloop.storage.store import NotFound, Store


class Journal:
    """Answers of one judge under one fingerprint."""

    def __init__(self, store: Store, folder: str, judge: str, fingerprint: str) -> None:
        """`folder`: `keys.judgements_prefix` of an epoch, or `keys.cell_judgements()`."""
        self._store, self._place = store, (folder, judge, fingerprint)
        listing = store.list(keys.judgement_prefix(folder, judge, fingerprint))
        self._done = {entry.key.rpartition("/")[2].removesuffix(".json") for entry in listing}

    def find(self, content: str) -> JudgeScores | None:
        """The answer to the prompt of that hash; None: it is to be asked for.

        One of an earlier release without some of its votes, or one that was changed, is asked for again.
        """
        if content not in self._done:
            return None
        try:
            answer = unseal(self._store.get(keys.judgement(*self._place, content)), JudgeScores)
        except (NotFound, ValueError):
            return None
        return answer if _is_whole(answer) else None

    def write(self, content: str, scores: JudgeScores) -> None:
        """Keep an answer whose votes all count. What is missing in another one, a later pass asks for."""
        if not _is_whole(scores):
            return
        self._store.put(keys.judgement(*self._place, content), seal(scores))
        self._done.add(content)


def _is_whole(answer: JudgeScores) -> bool:
    return all(vote.invalid is None for vote in answer.votes)


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
        begun = unseal(store.get(key), PassRecord)
    except NotFound:
        begun = None
    except ValueError as error:
        if not restart:
            raise BadDataError(
                f"{key}: not a judge pass ({reason_of(error)}); begin it anew by "
                f"`questloop evaluate --epoch {epoch} --restart`"
            ) from None
        begun = PassRecord(epoch=epoch, fingerprints={})
    if begun is not None and begun.fingerprints != fingerprints and not restart:
        changed = ", ".join(
            f"{name} was {begun.fingerprints.get(name)} and is {fingerprints.get(name)}"
            for name in sorted(begun.fingerprints | fingerprints)
            if begun.fingerprints.get(name) != fingerprints.get(name)
        )
        raise UsageError(
            f"epoch {epoch} was judged under another fingerprint (rubric, model or votes): {changed}; "
            f"go back to the old settings, or judge it anew by `questloop evaluate --epoch {epoch} --restart`"
        )
    if begun != record:
        if begun is not None:
            store.delete([keys.scores(epoch), keys.evaluation(epoch)])
        store.put(key, seal(record))
