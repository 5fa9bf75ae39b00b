"""Episodes of a real trainer, played again from their inputs and filmed."""

import contextlib
import io
import json
from dataclasses import replace
from hashlib import sha256
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.planner.trials import trials
from PIL import Image

from questloop import settings as settings_module
from questloop.cli import video
from questloop.env.world import game_world
from questloop.episodes.png import decode_png
from questloop.episodes.reader import SegmentReader
from questloop.episodes.replays import Replay, decode_replays, encode_replays, read_replays
from questloop.episodes.segment import EpisodeOutcome
from questloop.errors import BadDataError, MissingExtraError, UsageError
from questloop.game.emulator import Emulator
from questloop.game.profiles import profile_for
from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom
from questloop.game.start_states import StartState, write_start_state
from questloop.planner.client import EmbeddedPlanner
from questloop.planner.modes import Mode
from questloop.planner.takeover import Takeovers
from questloop.report import films
from questloop.report.captions import Panel, captions
from questloop.report.theatre import Shot, Theatre, pictures_per_step
from questloop.storage.commit import commit_stage
from questloop.storage.keys import EpisodeId, Stage
from questloop.storage.store import open_store
from questloop.training.epoch_plan import EpochPlan
from questloop.training.exports import Exports

SLOTS, STEPS = 2, 260


@pytest.fixture(scope="module")
def settings():
    return settings_module.load(None, {"episode_length": 400})


@pytest.fixture(scope="module")
def store(tmp_path_factory, settings):
    """Two epochs of the environment that trains, under random actions; episodes go on across them."""
    store = open_store(str(tmp_path_factory.mktemp("films")))
    world = game_world(settings)
    env = world.build(SLOTS)
    exports = Exports(settings, store, world, SLOTS)
    random = np.random.default_rng(5)
    env.seed([np.random.default_rng(slot) for slot in range(SLOTS)])
    obs = np.zeros((SLOTS, *env.observation_shape), env.observation_dtype)
    reward, boundary = np.zeros(SLOTS, np.float32), np.zeros(SLOTS, np.uint8)
    env.reset(obs)
    for epoch in (0, 1):
        plan = EpochPlan(
            run="r1",
            epoch=epoch,
            fence=1,
            seed=0,
            step_start=epoch * STEPS * SLOTS,
            step_end=(epoch + 1) * STEPS * SLOTS,
            reward_model_sha256=None,
        )
        exports.start_epoch(plan)
        env.start_trace(STEPS)
        for step in range(STEPS):
            if step % 8 == 0:
                action = random.integers(0, 8, SLOTS).astype(np.uint8)
            env.step(action, obs, reward, boundary)
        exports.add([env.trace()])
        report = exports.finish_epoch()
        commit_stage(store, epoch, Stage.ROLLOUTS, 1, report.objects)
        exports.load_state_dict(exports.state_dict())
        env.load_state_dict(env.state_dict())
    env.close()
    return store


@pytest.fixture(scope="module")
def theatre(settings):
    rom = Rom.load(None)
    return Theatre(rom, profile_for(rom), settings)


def test_every_episode_plays_again_as_it_was_played(store, theatre, settings):
    replays = read_replays(store, 1)
    assert {item.episode_id: item.steps for item in replays} == {
        "r1-e0000-s000-00000": settings.game.episode_length,
        "r1-e0000-s001-00000": settings.game.episode_length,
        "r1-e0001-s000-00001": 2 * STEPS - settings.game.episode_length,
        "r1-e0001-s001-00001": 2 * STEPS - settings.game.episode_length,
    }
    assert replays[0].reloads == (STEPS,), "the epoch ended there"
    for item in replays:
        shots = list(theatre.play(item, range(item.steps)))  # compares the memory at the end
        assert shots[-1].total == pytest.approx(item.raw_return, abs=1e-3)


class Slow(EmbeddedPlanner):
    """A fake planner whose every plan is asked for three times before it is there."""

    def ask(self, mode, document, picture=None):
        future = super().ask(mode, document, picture)
        asked = iter([False] * 3)
        future.done = lambda: next(asked, True)
        return future


@pytest.mark.slow
@pytest.mark.parametrize("frame_skip", [4, 8, 16])
@pytest.mark.parametrize("planner", [EmbeddedPlanner, Slow])
def test_a_takeover_plays_again_as_it_was_played(tmp_path, frame_skip, planner):
    """Its buttons last four frames at every FRAME_SKIP, and the game stands still until a plan is there."""
    rom, steps = Rom.load(None), 800 // frame_skip
    rooms = [trial for trial in trials(rom, PROFILE) if trial.mode is Mode.PUZZLE][:2]
    (tmp_path / "starts").mkdir()
    for trial in rooms:
        name = trial.name.replace(" ", "_").replace(":", "_")
        write_start_state(str(tmp_path / "starts"), StartState(name, trial.state))
    settings = settings_module.load(
        None,
        {"episode_length": 4000, "frame_skip": frame_skip, "start_states": str(tmp_path / "starts")},
    )
    store = open_store(str(tmp_path / "store"))
    world = game_world(settings)
    env = world.build(SLOTS)
    exports = Exports(settings, store, world, SLOTS)
    takeovers = Takeovers(env, planner(), frame_skip)
    env.seed([np.random.default_rng(slot) for slot in range(SLOTS)])
    obs = np.zeros((SLOTS, *env.observation_shape), env.observation_dtype)
    reward, boundary = np.zeros(SLOTS, np.float32), np.zeros(SLOTS, np.uint8)
    env.reset(obs)
    for epoch in (0, 1):
        span = steps * SLOTS
        exports.start_epoch(
            EpochPlan("r1", epoch, 1, 0, step_start=epoch * span, step_end=(epoch + 1) * span)
        )
        env.start_trace(steps)
        for _ in range(steps):
            action, mask = np.full(SLOTS, 7, np.uint8), np.ones(SLOTS, np.bool_)
            takeovers.act(action, mask)
            env.step(action, obs, reward, boundary)
        exports.add([env.trace()])
        commit_stage(store, epoch, Stage.ROLLOUTS, 1, exports.finish_epoch().objects)
        exports.load_state_dict(exports.state_dict())
        takeovers.state_dict()
        env.load_state_dict(env.state_dict())
    env.close()
    assert takeovers.report().outcomes["puzzle solved"] >= 1
    replays = read_replays(store, 1)
    scripts = {script for item in replays for script in item.scripts.values()}
    assert {len(script) for script in scripts} == ({frame_skip // 4} | ({0} if planner is Slow else set()))
    theatre = Theatre(rom, PROFILE, settings)
    for item in replays:
        assert item.steps == 2 * steps
        shots = list(theatre.play(item, range(item.steps)))  # compares the memory at the end
        assert shots[-1].total == pytest.approx(item.raw_return, abs=1e-3)


def test_inputs_of_the_first_schema_are_one_button_a_step():
    """As an earlier release wrote them: no scripts."""
    replay = Replay("r1-e0000-s000-00000", None, np.arange(3, dtype=np.uint8), np.zeros(3, np.uint8), (),
                    1.0, EpisodeOutcome.RUNNING, scripts={1: b"\x04\x07", 2: b""})  # fmt: skip
    assert decode_replays(encode_replays([replay]), "key")[0].scripts == replay.scripts
    assert [replay.inputs(step, 8) for step in range(3)] == [[(0, 8)], [(4, 4), (7, 4)], []]
    with np.load(io.BytesIO(encode_replays([replay]))) as arrays:
        meta, columns = json.loads(str(arrays["meta"])), dict(arrays)
    meta["schema_version"] = 1
    del meta["episodes"][0]["scripts"]
    old = io.BytesIO()
    np.savez_compressed(old, **columns | {"meta": np.array(json.dumps(meta))})
    (read,) = decode_replays(old.getvalue(), "key")
    assert [read.inputs(step, 8) for step in range(3)] == [[(0, 8)], [(1, 8)], [(2, 8)]]


def test_a_picture_is_the_one_that_was_exported(store, theatre):
    reader = SegmentReader(store)
    view = reader.load(next(name for name in reader.list(1) if "s000-00000-" in name))
    drawn = {line["step"] for line in view.states if line["png"]}
    (replay,) = [item for item in read_replays(store, 1) if item.episode_id == view.episode_id]
    shots = {shot.step: shot.frame for shot in theatre.play(replay, range(replay.steps))}
    assert len(drawn) >= 10
    for step in drawn:
        assert np.array_equal(shots[step], decode_png(view.png(step))), step


def test_other_inputs_are_found_out(store, theatre):
    replay = read_replays(store, 0)[0]
    wrong = replace(replay, action=np.roll(replay.action, 40))
    with pytest.raises(BadDataError, match="does not play again"):
        list(theatre.play(wrong, range(wrong.steps)))


def test_an_archives_cell_is_no_start(theatre):
    replay = Replay(
        "r1-e0000-s000-00000", "archive-0:20", *[np.zeros(3, np.uint8)] * 2, (), 1.0, EpisodeOutcome.RUNNING
    )
    with pytest.raises(UsageError, match="archive"):
        list(theatre.play(replay, range(3)))
    assert films.ranked([replay]) == []


@pytest.mark.parametrize("subtitles", [False, True])
def test_the_best_episode(store, settings, subtitles):
    av = pytest.importorskip("av")
    (best,) = films.ranked(read_replays(store, 1))[:1]
    told = []
    data = films.film(
        store, settings, 1, [best], 40, lambda done, total: told.append((done, total)), subtitles
    )
    with av.open(io.BytesIO(data)) as film:
        stream = film.streams.video[0]
        assert (stream.width, stream.height) == (480, 542 if subtitles else 492)
        assert told == [(done, len(told)) for done in range(1, len(told) + 1)]
        assert sum(1 for _ in film.decode(stream)) == len(told)


@pytest.mark.parametrize("frame_skip", [4, 16])
def test_a_film_is_quick_where_nothing_happens(settings, monkeypatch, frame_skip):
    """Around a milestone and at both ends it has the game's own speed, in between every eighth picture."""
    steps, each = 2400 // frame_skip, pictures_per_step(frame_skip)
    at = steps // 2
    replay = Replay("r1-e0000-s000-00000", None, *[np.zeros(steps, np.uint8)] * 2, (), 0.0,
                    EpisodeOutcome.RUNNING, {"sword_1": at})  # fmt: skip
    seen = []

    def under(panel, shot, frame):
        seen.append((shot.step, panel.quick, [caption.words for caption in panel.recent]))
        return frame

    class Still:
        def __init__(self):
            self.titles = {"sword_1": "Took the twig blade"}

        def play(self, replay, drawn):
            for step in range(drawn.stop):
                pictures = [np.zeros((144, 160, 3), np.uint8)] * each if step in drawn else [None]
                yield from (Shot(step, picture, "policy", {}, 0.0) for picture in pictures)

    monkeypatch.setattr(Panel, "under", under)
    pictures, total = films.single(Still(), replay, {}, steps, frame_skip)
    assert len(list(pictures)) == len(seen) == total
    slow = {step for step, quick, _ in seen if quick == 1}
    assert {0, at - 1, at, at + 1, steps - 1} <= slow
    assert steps // 4 not in slow
    assert [step for step, *_ in seen].count(at) == each
    quick = [step for step, quick, _ in seen if quick > 1]
    assert len(quick) == pytest.approx((steps - len(slow)) * each / films.QUICK, abs=4)
    told = {step for step, _, words in seen if words == ["Took the twig blade"]}
    assert min(told) == at + 1, "when the step is over"
    assert max(told) < at + 120 // frame_skip


def test_what_happens_is_said_in_words():
    replay = Replay("e", None, *[np.zeros(3, np.uint8)] * 2, (), 0.0, EpisodeOutcome.RUNNING, {"sword": 1})
    earned = {"room": 0.05, "tile": 0.2, "aim": 1.0, "health": -0.5, "rupee": 0.001}
    shot = Shot(0, None, "policy", earned, 0.0)
    assert [each.words for each in captions(replay, shot, {})] == ["entered a room +0.05", "was hurt -0.50"]
    shot = replace(shot, step=1)
    assert [each.words for each in captions(replay, shot, {"sword": "Took it"})] == ["Took it"]


def test_the_same_moment_over_epochs(store, settings):
    """Each epoch's median episode from its beginning, ten seconds at most; WebP needs no extra."""
    data, chosen = films.film_epochs(store, settings, suffix=".webp")
    assert [replay.outcome for replay in chosen] == [EpisodeOutcome.RUNNING, EpisodeOutcome.TRUNCATED]
    with Image.open(io.BytesIO(data)) as film:
        assert film.size == (2 * 320, 288 + 52)
        assert 100 <= film.n_frames <= 150
    assert len(data) < 3_000_000


def test_the_middle_episode_of_an_epoch_is_the_median_of_those_that_ended():
    def replay(slot, count, outcome=EpisodeOutcome.TRUNCATED, epoch=3):
        milestones = {str(number): number for number in range(count)}
        arrays, name = [np.zeros(3, np.uint8)] * 2, str(EpisodeId("r1", epoch, slot, 0))
        return Replay(name, None, *arrays, (), float(count), outcome, milestones)

    ended = [replay(slot, count) for slot, count in enumerate((1, 9, 4))]
    running = [replay(slot, 0, EpisodeOutcome.RUNNING) for slot in (5, 6, 7)]
    older = [replay(slot, 12, epoch=2) for slot in range(8, 12)]
    assert films._middle([*running, *ended, *older], 3) is ended[2]
    assert films._middle([*running, *older], 3) is older[2]
    assert films._middle(running, 3) is running[1]
    assert films._middle([], 3) is None
    assert [films._spread(range(count)) for count in (0, 1, 2, 5, 100)] == [
        [], [0], [0, 1], [0, 1, 3, 4], [0, 33, 66, 99]]  # fmt: skip


@pytest.mark.parametrize(("frame_skip", "each"), [(2, 1), (4, 1), (8, 2), (16, 4), (6, 1)])
def test_a_film_shows_the_game_every_four_frames_and_two_minutes_of_it(tmp_path, frame_skip, each):
    """However long a step is; the last picture of a step is the one that is exported."""
    pytest.importorskip("av")
    chosen = settings_module.load(None, {"frame_skip": frame_skip})
    emulator = Emulator(Rom.load(None), PROFILE.layout)
    for _ in range(5):
        emulator.step(2, frame_skip)
    row = np.zeros(PROFILE.layout.size, np.uint8)
    emulator.read(row)
    replay = Replay("r1-e0000-s000-00000", None, np.full(5, 2, np.uint8), np.zeros(5, np.uint8), (), 0.0,
                    EpisodeOutcome.RUNNING, last_taps=sha256(row.tobytes()).hexdigest())  # fmt: skip
    shots = list(Theatre(Rom.load(None), PROFILE, chosen).play(replay, range(2, 5)))
    assert [shot.step for shot in shots] == [0, 1, *[step for step in (2, 3, 4) for _ in range(each)]]
    assert [shot.frame is None for shot in shots] == [True, True, *[False] * 3 * each]
    assert pictures_per_step(frame_skip) == each
    emulator.close()


def test_the_judges_score_below_a_film_is_of_the_segment_that_is_shown(store, settings, monkeypatch):
    replay = films.ranked(read_replays(store, 1))[0]
    assert replay.segment_steps == 100, "a quarter of the episode"
    seen = {}
    monkeypatch.setattr(
        Panel, "under", lambda panel, shot, frame: seen.setdefault(shot.step, (panel.judged, panel.said))
    )
    lines = {index: _line(index / 4, f"reason {index}") for index in (1, 2)}
    theatre = Theatre(Rom.load(None), PROFILE, settings)
    pictures, _ = films.single(theatre, replay, lines, 250, settings.game.frame_skip, subtitles=True)
    list(pictures)
    for step, found in seen.items():
        index = step // 100
        given = (f"judges {index / 4:.2f}", f"judge: reason {index}")
        assert found == (given if index else ("not judged", "")), step
    assert {step // 100 for step in seen} == {0, 1, 2}


def test_a_film_of_which_nothing_was_judged_says_nothing_of_judges(store, settings, monkeypatch):
    replay = films.ranked(read_replays(store, 1))[0]
    seen = []
    monkeypatch.setattr(Panel, "under", lambda panel, shot, frame: seen.append(panel.judged))
    theatre = Theatre(Rom.load(None), PROFILE, settings)
    list(films.single(theatre, replay, {}, 250, settings.game.frame_skip)[0])
    assert set(seen) == {""}


def _line(weighted, reason):
    votes = [SimpleNamespace(invalid="cut_off", reason="no"), SimpleNamespace(invalid=None, reason=reason)]
    return SimpleNamespace(weighted=weighted, judges={"judge": SimpleNamespace(votes=votes)})


def test_a_grid_of_agents(store, settings):
    av = pytest.importorskip("av")
    chosen = films.ranked(read_replays(store, 1))
    with av.open(io.BytesIO(films.film(store, settings, 1, chosen, 20))) as film:
        stream = film.streams.video[0]
        assert (stream.width, stream.height) == (640, 680)
        assert sum(1 for _ in film.decode(stream)) == 20


def test_a_long_episode_is_filmed_around_its_last_milestone():
    long = Replay(
        "e", None, *[np.zeros(5000, np.uint8)] * 2, (), 0.0, EpisodeOutcome.RUNNING, {"sword": 3000}
    )
    assert films.stretch(long, 600) == range(2500, 3100)
    assert films.stretch(replace(long, milestones={}), 600) == range(600)
    assert films.stretch(replace(long, milestones={"late": 4990}), 600) == range(4400, 5000)
    assert films.stretch(long, 9000) == range(5000)


def test_inputs_survive_the_store_and_damage_is_named(store):
    replays = read_replays(store, 1)
    again = decode_replays(encode_replays(replays), "k")
    assert [replace(item, action=None, mode=None) for item in again] == [
        replace(item, action=None, mode=None) for item in replays
    ]
    assert all(np.array_equal(a.action, b.action) for a, b in zip(again, replays, strict=True))
    for data in (b"", b"PK\x03\x04 cut off", encode_replays(replays)[:-40]):
        with pytest.raises(BadDataError, match="some/key"):
            decode_replays(data, "some/key")
    assert decode_replays(encode_replays([]), "k") == ()


def test_no_changed_bit_of_the_inputs_is_a_crash():
    replay = Replay("e", None, *[np.zeros(4, np.uint8)] * 2, (), 0.0, EpisodeOutcome.RUNNING)
    data = bytearray(encode_replays([replay]))
    for bit in range(0, 8 * len(data), 3):
        data[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(BadDataError):
            decode_replays(bytes(data), "k")
        data[bit // 8] ^= 1 << bit % 8


def test_an_epochs_best_episode_is_filmed_into_the_store_once(store, settings, monkeypatch):
    drawn = []

    def film(where, chosen_settings, epoch, chosen, **_):
        drawn.append((epoch, chosen[0].episode_id))
        return b"film"

    monkeypatch.setattr(films, "film", film)
    best = films.ranked(read_replays(store, 0))[0].episode_id
    key = films.film_best(store, settings, 0)
    assert key == "zelda-models/zelda_videos/epoch_0-best.mp4"
    assert store.get(key) == b"film"
    assert films.film_best(store, settings, 0) == key
    assert drawn == [(0, best)]


@pytest.mark.parametrize("error", [MissingExtraError("av", "video"), BadDataError("another start state")])
def test_an_epoch_goes_on_where_no_film_can_be_made(store, settings, error, monkeypatch):
    def film(*_, **__):
        raise error

    monkeypatch.setattr(films, "film", film)
    assert films.film_best(store, settings, 1) is None
    assert films.film_best(store, settings, 99) is None  # nothing was played


def test_the_list_names_an_episodes_last_milestone_by_its_title(settings, capsys):
    replay = Replay("r1-e0000-s000-00000", None, *[np.zeros(3000, np.uint8)] * 2, (), 1.5,
                    EpisodeOutcome.RUNNING, {"sword_1": 9, "met_elder": 4})  # fmt: skip
    video._print_list([replay, replace(replay, milestones={})], settings, as_json=False)
    names, first, second = capsys.readouterr().out.splitlines()
    assert names.endswith("how it ended   milestones, last one")
    assert first.split("  ")[-1].strip() == "2 milestones: Took the twig blade"
    assert "3,000 steps" in first
    assert second.split("  ")[-1].strip() == "0 milestones"
