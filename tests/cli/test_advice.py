"""What an error advises works as it is pasted, and what was asked for ends well after it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from questloop.cli import advice
from questloop.cli.app import app
from questloop.storage import keys
from questloop.storage.keys import Stage
from questloop.storage.sealed import DIGEST
from questloop.storage.store import open_store

COMMAND = re.compile(r"`([^`]*questloop [^`]*)`")
SMALL = {
    "EPOCH_STEPS": "1024",
    "EPISODE_LENGTH": "128",
    "RAY_WORKERS": "0",
    "ENVS_PER_WORKER": "2",
    "BATCH_SIZE": "256",
    "MINIBATCH_SIZE": "128",
    "PPO_EPOCHS": "1",
    "JUDGE_BUDGET": "4",
    "JUDGE_CELLS": "8",
    "JUDGE_VOTES": "1",
    "LOW_WATER_MB": "0",
}


def ask(line, folder, **settings):
    """Run a line as a shell does; `questloop` is the one under test, and a pipeline ends after two epochs."""
    words = shlex.split(line)
    at = words.index("questloop")
    if words[at + 1] == "pipeline" and "--epochs" not in words:
        words += ["--epochs", "2"]
    named = dict(word.split("=", 1) for word in words[:at])
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "questloop", *words[at + 1 :]],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        | {**SMALL, **settings, **named},
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )


@pytest.mark.parametrize(
    ("named", "said", "right"),
    [
        ({}, "questloop verify --rewind 3", "questloop verify --rewind 3"),
        ({"store": "a b"}, "questloop verify --repair", "questloop verify --repair --store 'a b'"),
        ({"place": "x"}, "questloop judge compare --pairs 1", "questloop judge compare --pairs 1 --store x"),
        ({"store": "x"}, "questloop verify --store y", "questloop verify --store y"),
        ({"store": "x"}, "questloop fleet jobs", "questloop fleet jobs"),
        ({"config": "q.toml"}, "questloop pipeline", "questloop pipeline --config q.toml"),
        ({"seed": 3, "store": "x"}, "questloop evaluate", "SEED=3 questloop evaluate --store x"),
        ({"seed": 3}, "questloop demo", "questloop demo --seed 3"),
        ({"place": "x"}, "questloop states capture NAME", "questloop states capture NAME"),
    ],
)
def test_what_the_command_line_named_is_named_again(named, said, right):
    class Parameter:
        def __init__(self, name):
            self.name = name

    advice.forget()
    for name, value in named.items():
        advice.named(Parameter(name), value)
    assert advice.complete(f"by `{said}`.", app) == f"by `{right}`."
    advice.forget()


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """The store of an epoch of the bundled game, with all its stages."""
    folder = tmp_path_factory.mktemp("advice")
    done = ask("questloop pipeline --store run --epochs 1", folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "run"


def without(*stages):
    def spoil(store):
        store.delete([keys.commit(0, stage) for stage in stages])

    return spoil


def cut(key):
    def spoil(store):
        name = key(store) if callable(key) else key
        data = store.get(name)
        store.put(name, data[: len(data) // 2])

    return spoil


def both(*spoils):
    def spoil(store):
        for each in spoils:
            each(store)

    return spoil


def listed_otherwise(key):
    """The model is not one, and its commit lists it so."""

    def spoil(store):
        stored = store.put(key, b"not a model")
        commit = json.loads(store.get(keys.commit(0, Stage.REWARD_MODEL)))
        commit.pop(DIGEST)
        for item in commit["objects"]:
            if item["key"] == key:
                item |= {"sha256": stored.sha256, "size": stored.size}
        store.put(keys.commit(0, Stage.REWARD_MODEL), json.dumps(commit).encode())

    return spoil


def a_judgement(store):
    return next(entry.key for entry in store.list(keys.judgements_prefix(0)))


ALL = (Stage.ROLLOUTS, Stage.EVALUATE, Stage.REWARD_MODEL)
OTHER_JUDGE = {"JUDGE_VOTES": "3"}
CASES = {
    "an epoch that was not played": (lambda store: None, "questloop evaluate --epoch 1", {}),
    "an epoch before that was not played": (lambda store: None, "questloop rollouts --epoch 2", {}),
    "a judge pass not made": (without(*ALL[1:]), "questloop reward-model", {}),
    "no reward model": (without(ALL[2]), "questloop reward-model --along-walkthrough", {}),
    "no comparison": (without(ALL[2]), "questloop reward-model --pairwise", {}),
    "a comparison cut off": (
        both(without(ALL[2]), lambda store: store.put(keys.preferences(0), b'{"a":')),
        "questloop reward-model --pairwise",
        {},
    ),
    "a pass cut off": (both(without(*ALL[1:]), cut(keys.judge_pass(0))), "questloop evaluate", {}),
    "a pass under other judges": (without(*ALL[1:]), "questloop evaluate", OTHER_JUDGE),
    "scores cut off": (both(without(ALL[2]), cut(keys.scores(0))), "questloop reward-model", {}),
    "a commit cut off": (cut(keys.commit(0, Stage.EVALUATE)), "questloop pipeline --epochs 1", {}),
    "a checkpoint cut off": (
        cut(keys.checkpoint(0, "policy.safetensors")),
        "questloop pipeline --epochs 2",
        {},
    ),
    "a reward model cut off": (cut(keys.reward_model(0)), "questloop pipeline --epochs 2", {}),
    "a reward model that is none": (
        listed_otherwise(keys.reward_model(0)),
        "questloop pipeline --epochs 2",
        {},
    ),
    "a judgement cut off": (cut(a_judgement), "questloop verify", {}),
    "a lease cut off": (cut(keys.lease(1)), "questloop verify", {}),
    "a score cut off, seen by verify": (cut(keys.scores(0)), "questloop verify", {}),
    "nothing at all": (lambda store: store.delete([e.key for e in store.list()]), "questloop report", {}),
    "no checkpoint to play": (
        lambda store: store.delete([e.key for e in store.list()]),
        "questloop evaluate-policy --episodes 1",
        {},
    ),
    "no film without play": (without(*ALL), "questloop video --output film.gif", {}),
}


def advised(done):
    """The command that an error of one line, or the audit's last line, names."""
    assert "Traceback" not in done.stderr
    said = (done.stderr + done.stdout).strip().splitlines()[-1]
    found = COMMAND.findall(said) or re.findall(r"(questloop verify [^,;]*--repair)", said)
    assert found, said
    return found[-1]


def follow(line, folder, settings, left=5):
    """Ask, and where it fails do what is advised first and ask again; returns the commands of that."""
    done = ask(line, folder, **settings)
    if done.returncode == 0:
        return []
    before = advised(done)
    assert left, (line, before)
    did = [*follow(before, folder, settings, left - 1), before]
    if before.startswith("questloop verify"):
        assert before.endswith("'my run'") or "'my run' " in before
    return did + follow(line, folder, settings, left - 1)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES)
def test_what_an_error_advises_ends_well(judged, tmp_path, case):
    spoil, command, settings = CASES[case]
    shutil.copytree(judged, tmp_path / "my run")
    spoil(open_store(str(tmp_path / "my run")))
    assert follow(f"{command} --store 'my run'", tmp_path, settings)
