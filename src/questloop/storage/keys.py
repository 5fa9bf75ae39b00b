"""Every key of the store, and the grammar of the ids in them.

An episode's id begins with its run and the epoch it began in; a segment's id begins with its episode's and
carries the fence of its writer: `r1-e0003-s012-00004` and `r1-e0003-s012-00004-00007-f0002`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from questloop.errors import BadDataError, UsageError

EPISODES = "zelda-episodes"
MODELS = "zelda-models"
JUDGEMENTS = "judgements"
"""a folder of judgements, an object each"""

_RUN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_EPISODE = re.compile(r"(?P<run>.+)-e(?P<epoch>\d{4,9})-s(?P<slot>\d{3,9})-(?P<ordinal>\d{5,9})")
_SEGMENT = re.compile(r"(?P<episode>.+)-(?P<index>\d{5,9})-f(?P<fence>\d{4,9})")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


class Stage(StrEnum):
    """The stages of an epoch, in order."""

    ROLLOUTS = "rollouts"
    EVALUATE = "evaluate"
    REWARD_MODEL = "reward_model"


@dataclass(frozen=True, order=True)
class EpisodeId:
    """`ordinal` counts the episodes that began in a slot of the run."""

    run: str
    epoch: int
    slot: int
    ordinal: int

    def __str__(self) -> str:
        return f"{self.run}-e{self.epoch:04d}-s{self.slot:03d}-{self.ordinal:05d}"

    @classmethod
    def parse(cls, text: str) -> EpisodeId:
        """Read an id; `BadDataError` for anything `str` would not write."""
        found = _EPISODE.fullmatch(text)
        if found and is_run_id(found["run"]):
            parsed = cls(found["run"], int(found["epoch"]), int(found["slot"]), int(found["ordinal"]))
            if str(parsed) == text:
                return parsed
        raise BadDataError(f"not an episode id: {text[:120]!r}; it looks like run-e0000-s000-00000")


@dataclass(frozen=True, order=True)
class SegmentId:
    """`index` counts the segments of the episode."""

    episode: EpisodeId
    index: int
    fence: int

    def __str__(self) -> str:
        return f"{self.episode}-{self.index:05d}-f{self.fence:04d}"

    @classmethod
    def parse(cls, text: str) -> SegmentId:
        """Read an id; `BadDataError` for anything `str` would not write."""
        found = _SEGMENT.fullmatch(text)
        if found:
            parsed = cls(EpisodeId.parse(found["episode"]), int(found["index"]), int(found["fence"]))
            if str(parsed) == text:
                return parsed
        raise BadDataError(
            f"not a segment id: {text[:120]!r}; it looks like run-e0000-s000-00000-00000-f0001"
        )


def is_run_id(text: str) -> bool:
    """Whether `text` can name a run: 1 to 32 lower-case letters, digits and inner hyphens."""
    return _RUN.fullmatch(text) is not None


def valid_run_id(text: str) -> str:
    """`text`, or `UsageError` where it cannot name a run."""
    if not is_run_id(text):
        raise UsageError(f"run id {text[:80]!r}: 1 to 32 lower-case letters, digits and inner hyphens")
    return text


# Episodes and segments


def episode_prefix(episode_id: str) -> str:
    """The folder of an episode. Raises `BadDataError` for what is no id, as all keys by an id do."""
    return f"{EPISODES}/{EpisodeId.parse(episode_id)}"


def episode_record(episode_id: str) -> str:
    """The document of an episode."""
    return f"{episode_prefix(episode_id)}/episode.json"


def segment_prefix(segment_id: str) -> str:
    """The folder of a segment, inside its episode's."""
    segment = SegmentId.parse(segment_id)
    return f"{EPISODES}/{segment.episode}/{segment}"


def manifest(segment_id: str) -> str:
    """The manifest of a segment, which is written last."""
    return f"{segment_prefix(segment_id)}/manifest.json"


def segment_file(segment_id: str, name: str) -> str:
    """A file of a segment: `states.jsonl`, `observations.npz` or `frames/000000.png`."""
    return "/".join([segment_prefix(segment_id), *map(_plain, name.split("/"))])


def frame_name(step: int) -> str:
    """The name of a frame's picture in its segment; `step` is the episode's step."""
    return f"frames/{step:06d}.png"


# Scores and models


def scores(epoch: int) -> str:
    """What the judges said of the epoch's segments. `UsageError` below epoch 0, as for all such keys."""
    return f"{EPISODES}/scores/{_epoch(epoch)}/scores.jsonl"


def judge_pass(epoch: int) -> str:
    """The fingerprints that an epoch is judged under; another pass is refused."""
    return f"{EPISODES}/scores/{_epoch(epoch)}/pass.json"


def preferences(epoch: int) -> str:
    """Pairwise judgements."""
    return f"{EPISODES}/scores/{_epoch(epoch)}/preferences.jsonl"


def labels(epoch: int) -> str:
    """A person's scores of segments."""
    return f"{EPISODES}/scores/{_epoch(epoch)}/labels.jsonl"


def judgements_prefix(epoch: int) -> str:
    """Journal and cache of the epoch's judge passes."""
    return f"{EPISODES}/scores/{_epoch(epoch)}/{JUDGEMENTS}"


def judgement_prefix(journal: str, judge: str, fingerprint: str) -> str:
    """Of `journal`, either `judgements_prefix(epoch)` or `cell_judgements()`."""
    return f"{journal}/{_plain(judge)}/{_plain(fingerprint)}"


def judgement(journal: str, judge: str, fingerprint: str, content: str) -> str:
    """One judge's answer to one prompt, whose hash is `content`."""
    return f"{judgement_prefix(journal, judge, fingerprint)}/{_plain(content)}.json"


# Cells


def cells(epoch: int) -> str:
    """The cells that an epoch saw first."""
    return f"{EPISODES}/cells/{_epoch(epoch)}/cells.jsonl"


def cell_observations(epoch: int) -> str:
    """What the policy saw in them."""
    return f"{EPISODES}/cells/{_epoch(epoch)}/observations.npz"


def cell_scores(epoch: int) -> str:
    """What is judged of all cells of the run by the end of an epoch's judge pass."""
    return f"{EPISODES}/cells/{_epoch(epoch)}/scores.jsonl"


def cell_preferences(epoch: int) -> str:
    """The pairs of cells that are judged side by side by then."""
    return f"{EPISODES}/cells/{_epoch(epoch)}/preferences.jsonl"


def cell_judgements() -> str:
    """Journal and cache of judgements of cells, over all epochs."""
    return f"{EPISODES}/cells/{JUDGEMENTS}"


def checkpoint_prefix(epoch: int) -> str:
    """The folder of an epoch's checkpoint."""
    return f"{MODELS}/checkpoints/{_epoch(epoch)}"


def checkpoint(epoch: int, name: str) -> str:
    """A file of a checkpoint, such as `policy.safetensors`; `name` may hold folders."""
    return "/".join([checkpoint_prefix(epoch), *map(_plain, name.split("/"))])


def archive(epoch: int) -> str:
    """The index of restart states, a file of the checkpoint."""
    return checkpoint(epoch, "archive.json")


def archive_state(digest: str) -> str:
    """A restart state by the SHA-256 of its bytes; indices of many epochs may name it."""
    return f"{MODELS}/archive/{_plain(digest)}.state"


def reward_model(epoch: int) -> str:
    """The reward model that was learned after an epoch."""
    return f"{MODELS}/reward_model/{_epoch(epoch)}/rm.pt"


def evaluation(epoch: int) -> str:
    """The summary of an epoch's judge pass."""
    return f"{MODELS}/evaluations/{_epoch(epoch)}/summary.json"


def video(name: str) -> str:
    """A file among the films, by its name."""
    return f"{MODELS}/zelda_videos/{_plain(name)}"


def replays(epoch: int) -> str:
    """The inputs of an epoch's episodes: any of them can be played again and filmed."""
    return video(f"{_epoch(epoch)}-replays.npz")


def film(epoch: int, name: str) -> str:
    """A film of an epoch: `best`, `grid` or an episode's id."""
    return video(f"{_epoch(epoch)}-{name}.mp4")


def parse_film(key: str) -> tuple[int, str] | None:
    """Epoch and name of a film; None for another key."""
    found = re.fullmatch(rf"{films_prefix()}/(epoch_\d+)-([^/]+)\.mp4", key)
    epoch = parse_epoch(found[1]) if found else None
    return None if found is None or epoch is None else (epoch, found[2])


def films_prefix() -> str:
    """The folder of films and replays."""
    return f"{MODELS}/zelda_videos"


# The pipeline's own documents


def run() -> str:
    """The run that the store belongs to; made once."""
    return f"{MODELS}/pipeline/run.json"


def doctor_probe() -> str:
    """Written, read and removed by `questloop doctor`."""
    return f"{MODELS}/pipeline/doctor-probe"


def progress() -> str:
    """The live progress of the run."""
    return f"{MODELS}/pipeline/progress.json"


def agents() -> str:
    """Screens and trails of a few agents while they train."""
    return f"{MODELS}/pipeline/agents.json"


def sessions_prefix() -> str:
    """Of the documents of all writers."""
    return f"{MODELS}/pipeline/sessions"


def session(fence: int) -> str:
    """The settings and the machine of the writer of this fence."""
    return f"{sessions_prefix()}/{fence:06d}.json"


def notes() -> str:
    """What a person wrote about the run."""
    return f"{MODELS}/pipeline/notes.json"


def commit(epoch: int, stage: Stage) -> str:
    """The commit of an epoch's stage."""
    return f"{MODELS}/pipeline/{_epoch(epoch)}/commit-{Stage(stage)}.json"


def retired(epoch: int) -> str:
    """Says that the epoch's episodes were removed on purpose."""
    return f"{MODELS}/pipeline/{_epoch(epoch)}/retired.json"


def lease_prefix() -> str:
    """The folder of leases and their heartbeats."""
    return f"{MODELS}/pipeline/lease"


def lease(fence: int) -> str:
    """The document that gives the store to the writer of this fence; made once."""
    return f"{lease_prefix()}/{fence:06d}.json"


def lease_beat(fence: int) -> str:
    """The heartbeat of that writer; it alone writes it."""
    return f"{lease_prefix()}/{fence:06d}-beat.json"


def parse_epoch(name: str) -> int | None:
    """The epoch of a folder's name, `epoch_3`; None for another name."""
    number = name.removeprefix("epoch_")
    if name == number or not number.isascii() or not number.isdigit() or str(int(number)) != number:
        return None
    return int(number)


def parse_lease(name: str) -> int | None:
    """The fence of a lease document's name, `000003.json`; None for another name."""
    number = name.removesuffix(".json")
    return int(number) if name != number and number.isascii() and number.isdigit() else None


def _epoch(epoch: int) -> str:
    if epoch < 0:
        raise UsageError(f"epoch {epoch}: an epoch is 0 or more")
    return f"epoch_{epoch}"


def _plain(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"not a file name: {name[:120]!r}; letters, digits and _.- only, not a dot first")
    return name
