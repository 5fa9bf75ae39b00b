"""Films of episodes: which steps are shown and how fast, written as one file."""

from __future__ import annotations

import importlib.util
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from tempfile import TemporaryDirectory

from questloop.episodes.replays import Replay, read_replays
from questloop.episodes.segment import EpisodeOutcome
from questloop.errors import BadDataError, MissingExtraError, QuestloopError
from questloop.game.recording import write_film
from questloop.judges.scores import SegmentScores, read_scores
from questloop.report.captions import Caption, Panel, Wall, captions
from questloop.report.theatre import Frame, Theatre, pictures_per_step
from questloop.settings import FRAMES_PER_SECOND, Settings
from questloop.storage import keys
from questloop.storage.commit import committed_epochs
from questloop.storage.keys import EpisodeId, SegmentId, Stage
from questloop.storage.store import NotFound, Store
from questloop.telemetry.logs import get_logger
from questloop.telemetry.progress import Tell

log = get_logger(__name__)

MOST_UNASKED = 4_000
"""Steps of an episode that is filmed at a run's end without being asked for: a few seconds."""

MOST_GAME_FRAMES = 7_200
"""Frames of an episode that are filmed unless more are asked for: two minutes at the game's own speed."""

QUICK = 8
"""How many times the game's own speed a film has where nothing happens."""

EPOCHS_BESIDE = 4
"""Epochs that a film shows side by side: the first, the last and some between."""

EPOCHS_S = 10.0
"""How long such a film is at most, in seconds."""

_BEFORE, _AFTER = 60, 90  # frames of the game around what happens that are shown at its own speed
_SHOWN_FRAMES = 80  # for which a caption stays on the screen
_LARGE = 4  # episodes side by side up to which their pictures are doubled


def ranked(replays: Sequence[Replay]) -> list[Replay]:
    """Those that can be played again, the highest return first."""
    able = [item for item in replays if item.steps and not (item.start_state or "").startswith("archive-")]
    return sorted(able, key=lambda item: (-item.raw_return, item.episode_id))


def film_best(
    store: Store,
    settings: Settings,
    epoch: int,
    tell: Tell = lambda done, total: None,
    most: int | None = None,
) -> str | None:
    """Film the epoch's best episode, of those with at most `most` steps, into the store; returns its key.

    One that is there is kept. A film is an ornament: where it cannot be made, the reason is logged and the
    epoch goes on.
    """
    key = keys.film(epoch, "best")
    if store.exists(key):
        return key
    try:
        able = ranked(read_replays(store, epoch))
        best = [replay for replay in able if most is None or replay.steps <= most][:1]
        if not best:
            raise BadDataError("no episode can be played again" if not able else "its episodes are long")
        store.put(key, film(store, settings, epoch, best, tell=tell))
    except QuestloopError as error:
        log.warning("no film of this epoch", epoch=epoch, reason=str(error))
        return None
    return key


def film(
    store: Store,
    settings: Settings,
    epoch: int,
    chosen: Sequence[Replay],
    most_steps: int | None = None,
    tell: Tell = lambda done, total: None,
    subtitles: bool = False,
    suffix: str = ".mp4",
) -> bytes:
    """A film of one episode with its panel, or of several side by side; an MP4 needs the extra `video`.

    `most_steps`: unset, as many as `MOST_GAME_FRAMES` take. `subtitles`: the panel of one episode holds what
    a judge said of each segment. `suffix`: a format of `questloop.game.recording`.
    """
    theatre, most_steps = Theatre.of(settings), most_steps or most_filmed(settings)
    if len(chosen) == 1:
        lines = _scores(store, chosen[0], epoch)
        frames, total = single(theatre, chosen[0], lines, most_steps, settings.game.frame_skip, subtitles)
    else:
        frames, total = _grid(theatre, chosen, most_steps, settings.game.frame_skip)
    return _written(frames, total, settings.game.frame_skip, tell, suffix)


def film_epochs(
    store: Store, settings: Settings, tell: Tell = lambda done, total: None, suffix: str = ".mp4"
) -> tuple[bytes, list[Replay]]:
    """A film of ten seconds at most that shows what the agent learned, and its episodes.

    Side by side, each from its beginning and at the same speed: the middle one, by milestones and return, of
    the episodes that ended in the first epoch, in the last one, and in some between.
    """
    found = {epoch: _middle(read_replays(store, epoch), epoch) for epoch in _spread(_played(store))}
    chosen = {epoch: replay for epoch, replay in found.items() if replay is not None}
    if len(chosen) < 2:
        raise BadDataError(f"store {store.url}: fewer than two epochs have an episode that can be filmed")
    replays, skip = list(chosen.values()), settings.game.frame_skip
    pictures = max(replay.steps for replay in replays) * pictures_per_step(skip)
    every = math.ceil(pictures / (EPOCHS_S * FRAMES_PER_SECOND * pictures_per_step(skip) / skip))
    names = [f"epoch {epoch}" for epoch in chosen]
    frames, total = _beside(Theatre.of(settings), replays, names, len(names), pictures, skip, every)
    return _written(frames, total, skip, tell, suffix), replays


def most_filmed(settings: Settings) -> int:
    """Steps that `MOST_GAME_FRAMES` take."""
    return max(1, MOST_GAME_FRAMES // settings.game.frame_skip)


def _written(frames: Iterator[Frame], total: int, skip: int, tell: Tell, suffix: str) -> bytes:
    if suffix == ".mp4" and importlib.util.find_spec("av") is None:
        raise MissingExtraError("av", "video")
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"film{suffix}"
        rate = FRAMES_PER_SECOND * pictures_per_step(skip) / skip
        write_film(path, _told(frames, total, tell), rate, scale=1)
        return path.read_bytes()


def _told(frames: Iterator[Frame], total: int, tell: Tell) -> Iterator[Frame]:
    for done, frame in enumerate(frames, 1):
        tell(done, total)
        yield frame


def _played(store: Store) -> list[int]:
    """Epochs of which the inputs are there."""
    return [e for e in committed_epochs(store, Stage.ROLLOUTS) if store.exists(keys.replays(e))]


def _spread(epochs: Sequence[int]) -> list[int]:
    """At most `EPOCHS_BESIDE` of them, the first and the last included."""
    last, most = len(epochs) - 1, EPOCHS_BESIDE - 1
    places = {round(last * part / most) for part in range(most + 1)} if epochs else set()
    return [epochs[place] for place in sorted(places)]


def _middle(replays: Sequence[Replay], epoch: int) -> Replay | None:
    """The median by milestones, then by return, of the episodes that ended; of all where none did.

    Of those that began in the epoch where any did: its policy played them whole.
    """
    able = ranked(replays)
    ended = [replay for replay in able if replay.outcome is not EpisodeOutcome.RUNNING] or able
    whole = [replay for replay in ended if EpisodeId.parse(replay.episode_id).epoch == epoch] or ended
    order = sorted(whole, key=lambda replay: (len(replay.milestones), replay.raw_return, replay.episode_id))
    return order[len(order) // 2] if order else None


def stretch(replay: Replay, most_steps: int) -> range:
    """The steps that are filmed: all, or `most_steps` that end soon after the last milestone."""
    if replay.steps <= most_steps:
        return range(replay.steps)
    last = max(replay.milestones.values(), default=0)
    first = min(max(0, last + most_steps // 6 - most_steps), replay.steps - most_steps)
    return range(first, first + most_steps)


def single(
    theatre: Theatre,
    replay: Replay,
    lines: Mapping[int, SegmentScores],
    most_steps: int,
    skip: int,
    subtitles: bool = False,
) -> tuple[Iterator[Frame], int]:
    """The pictures of one episode, and how many: all of them around what happens, some between.

    `lines`: what the judges said of its segments, by their index.
    """
    drawn = stretch(replay, most_steps)
    beforehand = theatre.play(replay, range(drawn.stop, drawn.stop))
    told = {shot.step: captions(replay, shot, theatre.titles) for shot in beforehand}
    slow = _slow([step for step, found in told.items() if found], drawn, skip)
    each = pictures_per_step(skip)
    kept = [
        step in slow or picture % QUICK == 0
        for picture, step in enumerate(step for step in drawn for _ in range(each))
    ]
    shots = (shot for shot in theatre.play(replay, drawn) if shot.frame is not None)

    def pictures() -> Iterator[Frame]:
        recent: deque[Caption] = deque(maxlen=3)
        noted = drawn.start - 1
        for shot in compress(shots, kept):
            for step in range(noted + 1, shot.step):
                recent.extend(told[step])
            noted = max(noted, shot.step - 1)
            line = lines.get(shot.step // replay.segment_steps)
            assert shot.frame is not None
            yield Panel(
                title=_title(replay),
                recent=[item for item in recent if shot.step - item.step < max(1, _SHOWN_FRAMES // skip)],
                judged=_judged(line) if lines else "",
                said=_said(line) if subtitles else None,
                quick=1 if shot.step in slow else QUICK,
            ).under(shot, shot.frame)

    return pictures(), sum(kept)


def _title(replay: Replay) -> str:
    place = EpisodeId.parse(replay.episode_id)
    return f"epoch {place.epoch}, agent {place.slot}, episode {place.ordinal}"


def _slow(happens: Sequence[int], drawn: range, skip: int) -> set[int]:
    """The steps around what happens, and the first and last of the film."""
    before, after = max(1, _BEFORE // skip), max(1, _AFTER // skip)
    moments = [*happens, drawn.start, drawn.stop - 1]
    return {step for moment in moments for step in range(moment - before, moment + after + 1)}


def _judged(line: SegmentScores | None) -> str:
    return "not judged" if line is None else f"judges {line.weighted:.2f}"


def _said(line: SegmentScores | None) -> str:
    """A judge's name and reason; empty where none gave a vote that counts."""
    if line is None:
        return ""
    votes = ((name, vote) for name, judge in line.judges.items() for vote in judge.votes)
    return next((f"{name}: {vote.reason}" for name, vote in votes if vote.invalid is None), "")


def _grid(
    theatre: Theatre, chosen: Sequence[Replay], most_steps: int, skip: int
) -> tuple[Iterator[Frame], int]:
    """All of them from their beginning, named by their agents."""
    names = [f"agent {EpisodeId.parse(replay.episode_id).slot}" for replay in chosen]
    steps = min(most_steps, max(replay.steps for replay in chosen))
    columns = math.ceil(math.sqrt(len(chosen)))
    return _beside(theatre, chosen, names, columns, steps * pictures_per_step(skip), skip)


def _beside(
    theatre: Theatre,
    chosen: Sequence[Replay],
    names: Sequence[str],
    columns: int,
    pictures: int,
    skip: int,
    every: int = 1,
) -> tuple[Iterator[Frame], int]:
    """Every so many of the first `pictures` of all episodes; one that is over stands still, darkened."""
    wall = Wall(names, columns, theatre.titles, 2 if len(chosen) <= _LARGE else 1)
    steps = pictures // pictures_per_step(skip)

    def frames() -> Iterator[Frame]:
        playing = {
            place: theatre.play(replay, range(min(replay.steps, steps)))
            for place, replay in enumerate(chosen)
        }
        for picture in range(pictures):
            for place, shots in list(playing.items()):
                shot = next(shots, None)
                if shot is None or shot.frame is None:
                    del playing[place]
                    wall.end(place)
                elif picture % every == 0:
                    wall.show(place, chosen[place], shot, shot.frame)
            if picture % every == 0:
                yield wall.picture()

    return frames(), math.ceil(pictures / every)


def _scores(store: Store, replay: Replay, epoch: int) -> dict[int, SegmentScores]:
    """What the judges said of the episode's segments, by their index."""
    first = EpisodeId.parse(replay.episode_id).epoch
    found: dict[int, SegmentScores] = {}
    for judged in committed_epochs(store, Stage.EVALUATE):
        if not first <= judged <= epoch:
            continue
        try:
            lines = read_scores(store, judged)
        except NotFound:
            continue
        found |= {
            SegmentId.parse(line.segment_id).index: line
            for line in lines
            if line.episode_id == replay.episode_id and line.weighted is not None
        }
    return found
