"""`questloop doctor`, `states` and `play`, as a user runs them."""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import ray
from fastapi import FastAPI
from PIL import Image

from questloop.cli import app, doctor
from questloop.env.observers import VECTOR
from questloop.errors import UsageError
from questloop.exit_codes import ExitCode
from questloop.game.actions import Action
from questloop.game.emulator import Emulator
from questloop.game.input_script import parse_inputs
from questloop.game.profiles.mossgrove import PROFILE
from questloop.game.rom import Rom
from questloop.serving.background import AppServer
from questloop.settings import load
from questloop.storage.store import open_store
from questloop.training.checkpoint import Checkpoint, write_checkpoint
from questloop.training.cluster import start_ray

OPENING = "NOP 260\nSTART 8\nNOP 200\n"
"""Power-on to the first step, with frames to spare."""


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run a command in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str):
        monkeypatch.setattr(sys, "argv", ["questloop", *arguments])
        with pytest.raises(SystemExit) as end:
            app.main()
        captured = capsys.readouterr()
        return int(end.value.code or 0), captured.out, captured.err

    return run


def test_doctor_is_content_with_the_bundled_game(run):
    code, out, _ = run("doctor", "--steps", "400")
    assert code == ExitCode.DONE
    assert "profile mossgrove" in out
    assert "FAIL" not in out


def test_doctor_names_what_is_wrong(run, tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "CHECKS", [check for check in doctor.CHECKS if check[0] == "game"])
    (tmp_path / "cut.gbc").write_bytes(Rom.load().data[:1000])
    code, out, _ = run("doctor", "--rom", "cut.gbc", "--json")
    report = json.loads(out)
    assert code == ExitCode.FAILED
    assert not report["ok"]
    assert "cut.gbc is cut off" in report["checks"][0]["detail"]


def test_states_are_captured_listed_verified_and_played(run, tmp_path):
    (tmp_path / "inputs.txt").write_text(OPENING + "RIGHT 16\n")
    assert run("states", "capture", "east", "--script", "inputs.txt", "--weight", "2")[0] == ExitCode.DONE
    (tmp_path / "more.txt").write_text("LEFT 16\n")
    assert run("states", "capture", "west", "--script", "more.txt", "--from", "east")[0] == ExitCode.DONE
    code, out, _ = run("states", "list", "--json")
    assert code == ExitCode.DONE
    assert {item["name"]: item["weight"] for item in json.loads(out)} == {"east": 2, "west": 1}
    code, out, _ = run("states", "verify")
    assert (code, out.split()) == (ExitCode.DONE, ["ok", "east", "ok", "west"])
    code, _, _ = run(
        "play", "--start", "west", "--start-states", "states", "--steps", "2", "--output", "a.png"
    )
    assert code == ExitCode.DONE


def test_the_walkthrough_gives_a_state_a_milestone(run, tmp_path):
    assert run("states", "capture", "--milestones")[0] == ExitCode.DONE
    names = {path.stem for path in (tmp_path / "states").glob("*.state")}
    assert names == {"start"} | {milestone.key for milestone in PROFILE.milestones}
    assert json.loads((tmp_path / "states" / "weights.json").read_text())["finished"] == 0


def test_a_state_of_another_rom_fails_verification_and_says_what_to_do(run, tmp_path):
    (tmp_path / "inputs.txt").write_text(OPENING)
    assert run("states", "capture", "a", "--script", "inputs.txt")[0] == ExitCode.DONE
    data = bytearray(Rom.load().data)
    data[0x7F00] ^= 0xFF
    (tmp_path / "newer.gbc").write_bytes(data)
    code, out, _ = run("states", "verify", "--rom", "newer.gbc")
    assert code == ExitCode.BAD_DATA
    assert "ROM" in out
    assert "questloop states capture" in out


def test_a_state_that_pyboy_saved_is_taken(run, tmp_path):
    emulator = Emulator(Rom.load(), PROFILE.layout)
    for item in parse_inputs(OPENING):
        emulator.step(item.action, item.frames)
    (tmp_path / "mine.state").write_bytes(emulator.save().data)
    assert run("states", "capture", "mine", "--pyboy-state", "mine.state")[0] == ExitCode.DONE
    assert run("states", "verify")[0] == ExitCode.DONE
    (tmp_path / "mine.state").write_bytes(emulator.save().data[:99])
    code, _, err = run("states", "capture", "mine", "--pyboy-state", "mine.state")
    assert (code, "cut off" in err) == (ExitCode.BAD_DATA, True)


@pytest.mark.parametrize(
    "arguments",
    [["x"], ["--milestones", "x"], ["--window"], ["x", "--window", "--script", "f"], []],
)
def test_capture_wants_one_way(run, arguments):
    code, _, err = run("states", "capture", *arguments)
    assert code == ExitCode.USAGE
    assert "one of --script" in err


@pytest.mark.parametrize("name", ["film.gif", "film.mp4", "film.png"])
def test_play_records(run, tmp_path, name):
    code, out, _ = run("play", "--steps", "8", "--output", name)
    assert (code, out.strip()) == (ExitCode.DONE, f"{name}: 8 frames")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    if name.endswith(".gif"):
        assert Image.open(tmp_path / name).n_frames > 1
    if name.endswith(".png"):
        assert np.asarray(Image.open(tmp_path / name)).shape == (432, 480, 3)


def test_play_is_seeded(run, tmp_path):
    films = []
    for seed in ("1", "1", "2"):
        assert run("play", "--steps", "60", "--seed", seed, "--output", "a.png")[0] == ExitCode.DONE
        films.append((tmp_path / "a.png").read_bytes())
    assert films[0] == films[1] != films[2]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--output", "a.avi"], ".png, .gif, .webp, .mp4"),
        (["--output", "none/a.png"], "none/a.png"),
        (["--script", "none"], "input script none"),
        (["--start", "moon"], "no start state 'moon'"),
        (["--script", "x", "--window"], "one of"),
        (["--checkpoint", "empty"], "holds no checkpoint"),
    ],
)
def test_play_refuses_in_one_line(run, tmp_path, arguments, named):
    code, _, err = run("play", *arguments)
    assert code in (ExitCode.USAGE, ExitCode.BAD_DATA)
    assert named in err
    assert err.count("\n") == 1
    assert not [path for path in tmp_path.iterdir() if path.is_file()]


def test_a_checkpoint_plays(run, tmp_path):
    rng = np.random.default_rng(0)
    shapes = {0: (256, 128), 2: (256, 256), 4: (8, 256)}
    policy = {f"policy.{i}.weight": rng.normal(size=shape).astype(np.float32) for i, shape in shapes.items()}
    policy |= {f"policy.{i}.bias": np.zeros(shape[0], np.float32) for i, shape in shapes.items()}
    policy["policy.4.bias"][Action.RIGHT] = 1e6
    for epoch in (0, 1):
        write_checkpoint(open_store("store"), epoch, Checkpoint(VECTOR, policy, {}, {}, {}))
    code, out, _ = run("play", "--checkpoint", "store", "--steps", "3", "--output", "policy.png")
    assert (code, out.strip()) == (ExitCode.DONE, "policy.png: 3 frames")
    (tmp_path / "right.txt").write_text("RIGHT 12\n")
    run("play", "--script", "right.txt", "--output", "right.png")
    assert (tmp_path / "policy.png").read_bytes() == (tmp_path / "right.png").read_bytes()


NINE_COINS = Path(__file__).parents[2] / "games/ninecoins"


def test_a_profile_is_begun_and_checked(run, tmp_path):
    code, out, _ = run("profile", "new", "coins", "--rom", str(NINE_COINS / "ninecoins.gbc"))
    assert code == ExitCode.DONE
    assert "fill in its taps" in out
    assert "titles=('NINE COINS',)" in (tmp_path / "coins.py").read_text()
    code, out, _ = run("profile", "check", "coins.py")
    assert (code, out) == (ExitCode.DONE, "ok    coins: 4 bytes, 1 milestones, 0 items\n")
    code, _, err = run("profile", "new", "coins", "--rom", str(NINE_COINS / "ninecoins.gbc"))
    assert code == ExitCode.USAGE
    assert "is there already" in err


def test_a_rom_without_a_title_is_known_by_its_digest(run, tmp_path):
    data = bytearray((NINE_COINS / "ninecoins.gbc").read_bytes())
    data[0x134:0x143] = bytes(15)
    data[0x14D] = -sum(byte + 1 for byte in data[0x134:0x14D]) & 0xFF
    (tmp_path / "nameless.gb").write_bytes(data)
    assert run("profile", "new", "coins", "--rom", "nameless.gb")[0] == ExitCode.DONE
    assert f"sha256s=('{hashlib.sha256(data).hexdigest()}',)" in (tmp_path / "coins.py").read_text()
    assert run("profile", "check", "coins.py")[0] == ExitCode.DONE


def test_a_profile_with_faults_names_them(run, tmp_path):
    text = (NINE_COINS / "ninecoins.py").read_text().replace('goal="lit"', 'goal="dark"')
    (tmp_path / "wrong.py").write_text(text)
    code, out, _ = run("profile", "check", "wrong.py", "--json")
    assert code == ExitCode.BAD_DATA
    assert json.loads(out)["findings"] == ["goal 'dark' is no milestone's key"]
    assert run("profile", "check", "none.py")[0] == ExitCode.USAGE


def test_an_address_is_found(run, tmp_path):
    (tmp_path / "start.txt").write_text("NOP 200\nSTART 8\nNOP 90\n")
    steps = [each for step in ("RIGHT 16: up", "LEFT 8: down", "DOWN 9: same") for each in ("--step", step)]
    rom = str(NINE_COINS / "ninecoins.gbc")
    code, out, _ = run("profile", "find", "--rom", rom, "--script", "start.txt", *steps)
    assert code == ExitCode.DONE
    assert out.startswith('Tap("name", 1, 0xD00D)  # 80 96 88 88\n')
    code, out, _ = run("profile", "find", "--rom", rom, "--script", "start.txt", *steps, "--json")
    assert json.loads(out) == [{"tap": 'Tap("name", 1, 0xD00D)', "values": [80, 96, 88, 88]}]


def test_the_opening_is_kept_and_the_doctor_asks_for_it(run, monkeypatch):
    monkeypatch.setattr(doctor, "CHECKS", [check for check in doctor.CHECKS if check[0] == "game"])
    monkeypatch.setenv("ROM_PATH", str(NINE_COINS / "ninecoins.gbc"))
    monkeypatch.setenv("GAME_PROFILE", str(NINE_COINS / "ninecoins.py"))
    code, out, _ = run("doctor", "--steps", "200")
    assert code == ExitCode.FAILED
    assert "FAIL  start states: ninecoins.gbc waits at its title" in out
    code, out, _ = run("states", "capture", "--intro")
    assert code == ExitCode.DONE
    assert "the player has control" in out
    assert "start: states/start.state, weight 1" in out
    monkeypatch.setenv("START_STATES", "states")
    code, out, _ = run("doctor", "--steps", "400")
    assert code == ExitCode.DONE, out
    assert "ok    start states: start" in out


def test_doctor_asks_the_dashboard_of_a_cluster_whether_it_takes_jobs(run, monkeypatch):
    """An address of http:// is what `questloop epoch` is given."""
    monkeypatch.setattr(doctor, "CHECKS", [check for check in doctor.CHECKS if check[0] == "ray"])
    api = FastAPI()
    versions = {"version": "4", "ray_version": ray.__version__, "ray_commit": "", "session_name": ""}
    api.get("/api/version")(lambda: versions)
    with AppServer(api) as server:
        for address in (server.root_url, f"{server.root_url}/"):
            monkeypatch.setenv("RAY_ADDRESS", address)
            code, out, _ = run("doctor")
            assert (code, out.split(" ", 1)[0]) == (ExitCode.DONE, "ok"), out
    code, out, _ = run("doctor")
    assert code == ExitCode.FAILED
    assert "RAY_ADDRESS=http://127.0.0.1" in out


def test_training_from_here_refuses_the_dashboards_address():
    with pytest.raises(UsageError, match="questloop epoch"):
        start_ray(load(flags={"ray_address": "http://127.0.0.1:8265"}).training)
