"""Films of episodes, played again from their inputs, with rewards, mode and scores below the screen."""

from __future__ import annotations

import importlib.util
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from questloop.episodes.replays import Replay, read_replays
from questloop.episodes.trace import MODES
from questloop.errors import BadDataError, MissingExtraError, QuestloopError, UsageError
from questloop.game.emulator import Emulator
from questloop.game.profile import Profile
from questloop.game.profiles import profile_for
from questloop.game.recording import write_film
from questloop.game.rom import Rom
from questloop.game.start_states import BEGINNING, load_start_states
from questloop.game.state_file import SaveState
from questloop.game.walking import ground_of
from questloop.judges.scores import read_scores
from questloop.rewards.aims import Aims
from questloop.rewards.total import Rewards
from questloop.settings import FRAMES_PER_SECOND, RewardSettings, Settings
from questloop.storage import keys
from questloop.storage.commit import committed_epochs
from questloop.storage.keys import EpisodeId, SegmentId, Stage
from questloop.storage.store import NotFound, Store
from questloop.telemetry.logs import get_logger
from questloop.telemetry.progress import Tell

log = get_logger(__name__)

MOST_GAME_FRAMES = 7_200
"""Frames of an episode that are filmed unless more are asked for: two minutes at the game's own speed."""

WIDTH, HEIGHT = 160, 144
_PICTURE_FRAMES = 4  # frames of the game between two pictures, as near as whole parts of a step come to it
_SCALE = 3
_PANEL = 60  # pixels below the screen
_LABEL = 12  # pixels below a screen of the grid
_SHOWN_FRAMES = 80  # for which an earned reward stays on the screen
_DARK, _LIGHT, _SOFT = (20, 22, 27), (236, 238, 241), (150, 158, 170)
_GAIN, _LOSS = (122, 205, 150), (236, 130, 130)
_MODE_COLOURS = {"policy": _SOFT, "dialog": (240, 180, 90), "puzzle": (120, 180, 240)}

_Frame = NDArray[np.uint8]


@dataclass(frozen=True)
class Shot:
    """A picture of an episode that is played again, and what holds then; without one, a step."""

    step: int
    frame: _Frame | None  # u8[144, 160, 3]; None where it was not asked for
    mode: str
    earned: Mapping[str, float]  # reward parts of the step that are not 0, at its end
    total: float  # reward of the episode so far


class Theatre:
    """Plays the episodes of a run again. The ROM and the start states are those of the settings."""

    def __init__(self, rom: Rom, profile: Profile, settings: Settings) -> None:
        self._rom, self._profile, self._settings = rom, profile, settings
        self._rewards: RewardSettings = settings.rewards

    def play(self, replay: Replay, drawn: range) -> Iterator[Shot]:
        """Every step of `replay` up to the end of `drawn`; those in it by `pictures_per_step` shots.

        Raises `BadDataError` where the whole episode was played and does not end as it did then: its inputs
        are of a version that did not note when a game waited for a remote planner, or the start state or
        FRAME_SKIP is another one now.
        """
        start = self._start(replay)
        emulator = Emulator(self._rom, self._profile.layout)
        try:
            yield from self._shots(emulator, replay, start, drawn)
        finally:
            emulator.close()

    def _shots(
        self, emulator: Emulator, replay: Replay, start: SaveState | None, drawn: range
    ) -> Iterator[Shot]:
        row = np.zeros((1, self._profile.layout.size), np.uint8)
        rewards, total = Rewards(1, self._rewards, self._aims(emulator)), 0.0
        reloads, skip = set(replay.reloads), self._settings.game.frame_skip
        if start is not None:
            emulator.load(start)
        emulator.read(row[0])
        rewards.reset(np.zeros(1, np.intp), self._profile.columns(row.copy()))
        for step, mode in enumerate(replay.mode[: drawn.stop]):
            if step in reloads:
                emulator.load(emulator.save())
            inputs = replay.inputs(step, skip)
            if step in drawn:
                *between, last = _pictures(emulator, inputs, skip)
                yield from (Shot(step, picture, MODES[mode], {}, total) for picture in between)
            else:
                last = None
                for action, frames in inputs:
                    emulator.step(action, frames)
            emulator.read(row[0])
            total += float(rewards.step(self._profile.columns(row.copy()))[0])
            parts = zip(rewards.names, rewards.parts[0].tolist(), strict=True)
            yield Shot(
                step=step,
                frame=last,
                mode=MODES[mode],
                earned={name: value for name, value in parts if value},
                total=total,
            )
        if drawn.stop >= replay.steps and sha256(row[0].tobytes()).hexdigest() != replay.last_taps:
            raise BadDataError(
                f"episode {replay.episode_id} does not play again as it was played: FRAME_SKIP or "
                "START_STATES is another one now, or its game waited for a remote planner, which earlier "
                "releases did not note; its segments have their pictures"
            )

    def _aims(self, emulator: Emulator) -> Aims | None:
        """What pays for coming nearer to the guide's next aim, where the settings have it on."""
        exploration, profile = self._settings.exploration, self._profile
        if profile.guide is None or not exploration.aims or exploration.hint_interval:
            return None
        gamma = self._settings.training.gamma
        return Aims(1, profile, profile.guide, gamma, lambda slot: ground_of(emulator, profile))

    def _start(self, replay: Replay) -> SaveState | None:
        name = replay.start_state
        if name is None:
            return None
        if name.startswith("archive-"):
            raise UsageError(
                f"episode {replay.episode_id} begins at {name}: the archive may hold a better state there "
                "by now; film one that begins at a start state"
            )
        where = self._settings.game.start_states
        starts = load_start_states(self._rom, self._profile, str(where) if where else None, name != BEGINNING)
        return starts.named(name).state


def pictures_per_step(frame_skip: int) -> int:
    """Pictures that a filmed step gives: one every four frames of the game, where four divide the step."""
    return 1 if frame_skip % _PICTURE_FRAMES else frame_skip // _PICTURE_FRAMES


def _pictures(emulator: Emulator, inputs: Sequence[tuple[int, int]], frame_skip: int) -> list[_Frame]:
    """Play a step; `pictures_per_step` pictures of it, all alike where the game stood still."""
    count = pictures_per_step(frame_skip)
    every = frame_skip // count
    shown = [picture for action, frames in inputs for picture in emulator.show(action, frames, every)]
    return shown[-count:] or [emulator.frame()] * count


def ranked(replays: Sequence[Replay]) -> list[Replay]:
    """Those that can be played again, the highest return first."""
    able = [item for item in replays if item.steps and not (item.start_state or "").startswith("archive-")]
    return sorted(able, key=lambda item: (-item.raw_return, item.episode_id))


def film_best(store: Store, settings: Settings, epoch: int) -> str | None:
    """Film the epoch's best episode into the store, if that is not done; its key.

    A film is an ornament: where it cannot be made, the reason is logged and the epoch goes on.
    """
    key = keys.film(epoch, "best")
    if store.exists(key):
        return key
    try:
        best = ranked(read_replays(store, epoch))[:1]
        if not best:
            raise BadDataError("no episode can be played again")
        store.put(key, film(store, settings, epoch, best))
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
) -> bytes:
    """MP4 bytes of one episode with its panel, or of several side by side. Needs the extra `video`.

    `most_steps`: unset, as many as `MOST_GAME_FRAMES` take.
    """
    if importlib.util.find_spec("av") is None:
        raise MissingExtraError("av", "video")
    rom = Rom.load(settings.game.rom_path)
    theatre = Theatre(rom, profile_for(rom, settings.game.guide, settings.game.game_profile), settings)
    skip = settings.game.frame_skip
    most_steps = most_steps or max(1, MOST_GAME_FRAMES // skip)
    if len(chosen) == 1:
        scores = _scores(store, chosen[0], epoch)
        frames = _single(theatre, chosen[0], scores, most_steps, max(1, _SHOWN_FRAMES // skip))
    else:
        frames = _grid(theatre, chosen, most_steps)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        pictures = pictures_per_step(skip)
        total = min(most_steps, max(item.steps for item in chosen)) * pictures
        write_film(path, _told(frames, total, tell), FRAMES_PER_SECOND * pictures / skip, scale=1)
        return path.read_bytes()


def _told(frames: Iterator[_Frame], total: int, tell: Tell) -> Iterator[_Frame]:
    for done, frame in enumerate(frames, 1):
        tell(done, total)
        yield frame


def stretch(replay: Replay, most_steps: int) -> range:
    """The steps that are filmed: all, or `most_steps` that end soon after the last milestone."""
    if replay.steps <= most_steps:
        return range(replay.steps)
    last = max(replay.milestones.values(), default=0)
    first = min(max(0, last + most_steps // 6 - most_steps), replay.steps - most_steps)
    return range(first, first + most_steps)


def _single(
    theatre: Theatre, replay: Replay, scores: Mapping[int, float], most_steps: int, shown: int
) -> Iterator[_Frame]:
    """`shown`: steps for which an earned reward stays on the screen."""
    recent: deque[tuple[int, str, float]] = deque(maxlen=4)
    title = f"{replay.episode_id}   {replay.outcome.value}"
    for shot in theatre.play(replay, stretch(replay, most_steps)):
        told = ((name, value) for name, value in shot.earned.items() if name not in Aims.names)
        recent.extend((shot.step, name, value) for name, value in told if abs(value) >= 0.01)
        if shot.frame is not None:
            lately = [(name, value) for step, name, value in recent if shot.step - step < shown]
            score = scores.get(shot.step // replay.segment_steps)
            yield _with_panel(shot, shot.frame, title, lately, score)


def _with_panel(
    shot: Shot,
    frame: _Frame,
    title: str,
    recent: Sequence[tuple[str, float]],
    score: float | None,
) -> _Frame:
    width, top = WIDTH * _SCALE, HEIGHT * _SCALE
    image = Image.new("RGB", (width, top + _PANEL), _DARK)
    image.paste(Image.fromarray(frame).resize((width, top), Image.Resampling.NEAREST), (0, 0))
    draw = ImageDraw.Draw(image)
    draw.text((8, top + 3), f"step {shot.step:,}", fill=_LIGHT, font_size=16)
    draw.text((110, top + 3), f"return {shot.total:.2f}", fill=_LIGHT, font_size=16)
    draw.text((232, top + 3), shot.mode, fill=_MODE_COLOURS[shot.mode], font_size=16)
    judged = "not judged" if score is None else f"judges {score:.2f}"
    draw.text(
        (width - 8, top + 3), judged, fill=_LIGHT if score is not None else _SOFT, anchor="ra", font_size=16
    )
    left = 8.0
    for name, value in recent:
        text = f"{value:+.2f} {name}"
        draw.text((left, top + 23), text, fill=_GAIN if value > 0 else _LOSS, font_size=14)
        left += draw.textlength(text, font_size=14) + 14
    draw.text((8, top + 42), title, fill=_SOFT, font_size=12)
    return np.asarray(image)


def _grid(theatre: Theatre, chosen: Sequence[Replay], most_steps: int) -> Iterator[_Frame]:
    """All of them from their beginning; one that is over stands still, darkened."""
    columns = math.ceil(math.sqrt(len(chosen)))
    rows = math.ceil(len(chosen) / columns)
    canvas = Image.new("RGB", (columns * WIDTH, rows * (HEIGHT + _LABEL)), _DARK)
    draw = ImageDraw.Draw(canvas)
    playing: dict[int, Iterator[Shot]] = {
        place: theatre.play(item, range(min(item.steps, most_steps))) for place, item in enumerate(chosen)
    }
    corners = [
        (place % columns * WIDTH, place // columns * (HEIGHT + _LABEL)) for place in range(len(chosen))
    ]
    while True:
        for place in list(playing):
            left, top = corners[place]
            shot = next(playing[place], None)
            if shot is None or shot.frame is None:
                del playing[place]
                box = (left, top, left + WIDTH, top + HEIGHT)
                canvas.paste(canvas.crop(box).point(lambda value: value // 2), box)
                continue
            canvas.paste(Image.fromarray(shot.frame), (left, top))
            draw.rectangle((left, top + HEIGHT, left + WIDTH, top + HEIGHT + _LABEL), fill=_DARK)
            label = f"slot {EpisodeId.parse(chosen[place].episode_id).slot}   {shot.total:.2f}"
            draw.text((left + 4, top + HEIGHT), label, fill=_LIGHT, font_size=10)
            draw.text(
                (left + WIDTH - 4, top + HEIGHT),
                shot.mode,
                fill=_MODE_COLOURS[shot.mode],
                anchor="ra",
                font_size=10,
            )
        if not playing:
            return
        yield np.asarray(canvas).copy()


def _scores(store: Store, replay: Replay, epoch: int) -> dict[int, float]:
    """Weighted scores of the episode's segments, by their index."""
    first = EpisodeId.parse(replay.episode_id).epoch
    found: dict[int, float] = {}
    for judged in committed_epochs(store, Stage.EVALUATE):
        if not first <= judged <= epoch:
            continue
        try:
            lines = read_scores(store, judged)
        except NotFound:
            continue
        found |= {
            SegmentId.parse(line.segment_id).index: line.weighted
            for line in lines
            if line.episode_id == replay.episode_id and line.weighted is not None
        }
    return found
