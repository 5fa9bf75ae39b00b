"""Rewards by name, the checks on what they return, and the time limit."""

import threading

import pytest

from questloop.errors import UsageError
from questloop.exit_codes import ExitCode
from questloop.grpo.rewards import BUILTIN_REWARDS
from questloop.grpo.scoring import Reward, RewardError, load_rewards, resolve

USER_MODULE = """
import re

def right(prompts, completions, level, bonus=0.0, **kwargs):
    return [float(value) for value in level]

def raises(completions, **kwargs):
    return [1 / 0 for _ in completions]

def hangs(completions, **kwargs):
    "Catastrophic backtracking: holds the interpreter lock, so no thread could be heard."
    return [float(bool(re.fullmatch("(a+)+b", text))) for text in completions]

def ends(completions, **kwargs):
    import os
    os._exit(3)

NUMBER = 4
"""


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """A module that only the current folder holds, under a name of its own."""
    name = f"rewards_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(USER_MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path, str(tmp_path)])
    return name


def returning(values, name="mine"):
    return Reward(name, lambda prompts, completions, **_: values)


@pytest.mark.parametrize("values", [[1.0], [], [1.0] * 3, None, 1.0])
def test_a_wrong_number_of_values_names_the_function_and_the_lengths(values):
    with pytest.raises(RewardError, match="mine returned") as caught:
        returning(values)(prompts=["p"] * 2, completions=["a", "b"])
    assert caught.value.exit_code is ExitCode.BAD_DATA
    if isinstance(values, list):
        assert f"{len(values)} values for 2 completions" in str(caught.value)


def test_values_that_are_not_finite_abstain_and_are_counted():
    logged = []
    reward = returning([None, float("nan"), float("inf"), float("-inf"), 2, True])
    values = reward(
        prompts=["p"] * 6, completions=["c"] * 6, log_metric=lambda *metric: logged.append(metric)
    )
    assert values == [None, None, None, None, 2.0, 1.0]
    assert reward.invalid == {"not_finite": 3}
    assert logged == [("rewards/mine/invalid", 3)]


def test_a_value_that_is_no_number_is_named():
    with pytest.raises(RewardError, match=r"mine returned 'good' for completion 1"):
        returning([1.0, "good"])(prompts=["p"] * 2, completions=["a", "b"])


def test_an_exception_names_the_function():
    def broken(prompts, completions, **_):
        raise KeyError("answer")

    with pytest.raises(RewardError, match=r"broken raised KeyError\('answer'\)"):
        Reward("broken", broken)(prompts=["p"], completions=["c"])


def test_weights_and_names():
    rewards = load_rewards(["correctness", "xml_count"], [1.0, 0.25])
    assert [(reward.__name__, reward.weight, reward.timeout_s) for reward in rewards] == [
        ("correctness", 1.0, 0.0),
        ("xml_count", 0.25, 0.0),
    ]
    assert rewards[0].columns == ["answer"]
    with pytest.raises(UsageError, match="1 weights for 2 reward functions"):
        load_rewards(["correctness", "xml_count"], [1.0])
    with pytest.raises(UsageError, match="names a function twice"):
        load_rewards(["correctness", "correctness"])
    with pytest.raises(UsageError, match="name at least one"):
        load_rewards([])


def test_every_builtin_resolves():
    assert {"correctness", "keyword_match", "strict_format"} <= set(BUILTIN_REWARDS)
    assert all(resolve(name) is function for name, function in BUILTIN_REWARDS.items())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("corectness", "no built-in reward of that name; choose from correctness"),
        ("nowhere_at_all:score", "no module nowhere_at_all in"),
        ("{user}:missing", "missing does not exist in .*; it has right, raises, hangs, ends"),
        ("{user}:NUMBER", "NUMBER is not a function"),
        ("{user}:", "write it as module:function"),
    ],
)
def test_a_reward_that_cannot_be_loaded_says_why(user_module, name, message):
    with pytest.raises(UsageError, match=message):
        resolve(name.format(user=user_module))


def test_a_module_that_fails_on_import_says_so(tmp_path, monkeypatch):
    (tmp_path / "broken_rewards_a.py").write_text("import no_such_package_at_all\n")
    (tmp_path / "broken_rewards_b.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path, str(tmp_path)])
    with pytest.raises(UsageError, match="broken_rewards_a needs no_such_package_at_all, which"):
        resolve("broken_rewards_a:score")
    with pytest.raises(UsageError, match="importing broken_rewards_b failed: ZeroDivisionError"):
        resolve("broken_rewards_b:score")


@pytest.mark.slow
def test_a_users_function_runs_in_its_own_process(user_module):
    (reward,) = load_rewards([f"{user_module}:right"])
    try:
        assert reward.columns == ["level"]
        values = reward(
            prompts=["p"] * 2, completions=["a", "b"], level=[1, 2], trainer_state=threading.Lock()
        )
        assert values == [1.0, 2.0]
    finally:
        reward.close()


@pytest.mark.slow
def test_a_function_that_hangs_is_stopped_from_any_thread(user_module):
    (reward,) = load_rewards([f"{user_module}:hangs"], timeout_s=0.3)
    calls = {"prompts": ["p"] * 2, "completions": ["a" * 64, "aab"]}
    first = []
    thread = threading.Thread(target=lambda: first.append(reward(**calls)))
    thread.start()
    thread.join()
    assert first == [[None, None]]
    assert reward.invalid == {"timeout": 2}

    assert reward(prompts=["p"], completions=["aab"]) == [1.0]  # a new process took over
    assert reward(**calls) == [None, None]
    assert reward(**calls) == [None, None]
    with pytest.raises(RewardError, match=r"hangs did not end within 0.3 s, 3 times in a row"):
        reward(**calls)
    reward.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "message"),
    [("raises", "raised ZeroDivisionError"), ("ends", "its process ended with exit code 3")],
)
def test_an_error_in_the_process_is_named(user_module, function, message):
    (reward,) = load_rewards([f"{user_module}:{function}"])
    with pytest.raises(RewardError, match=f"{function}.*{message}"):
        reward(prompts=["p"], completions=["c"])
    reward.close()


SIGNATURES = """
import asyncio, functools

def completions_only(completions):
    return [1.0 for _ in completions]

def by_column(completions, answer):
    return [float(text == right) for text, right in zip(completions, answer)]

def all_of_it(prompts, completions, completion_ids, **kwargs):
    return [float(len(ids)) for ids in completion_ids]

async def waits(completions, **kwargs):
    await asyncio.sleep(0)
    return [2.0 for _ in completions]

class Scorer:
    def __init__(self, value):
        self.value = value
    def __call__(self, completions, **kwargs):
        return [self.value for _ in completions]

scorer = Scorer(3.0)
partial = functools.partial(by_column, answer=["a", "a"])

def with_trainer(completions, trainer_state, log_extra, log_metric, **kwargs):
    log_metric("mine", 1.0)
    return [float(trainer_state) for _ in completions]

def by_place(completions, /):
    return []
"""


@pytest.fixture
def signatures(tmp_path, monkeypatch):
    name = f"signatures_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(SIGNATURES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path, str(tmp_path)])
    return name


GIVEN = {
    "prompts": ["p", "p"],
    "completions": ["a", "b"],
    "completion_ids": [[1], [1, 2]],
    "answer": ["a", "a"],
    "level": [1, 2],
}


@pytest.mark.parametrize("timeout_s", [0, 60])
@pytest.mark.parametrize(
    ("function", "values"),
    [
        ("completions_only", [1, 1]),
        ("by_column", [1, 0]),
        ("all_of_it", [1, 2]),
        ("waits", [2, 2]),
        ("scorer", [3, 3]),
        ("with_trainer", [7, 7]),
    ],
)
def test_rewards_of_every_signature(signatures, function, values, timeout_s):
    (reward,) = load_rewards([f"{signatures}:{function}"], timeout_s=timeout_s)
    logged = []
    trainer = {
        "trainer_state": 7,
        "log_extra": lambda *_: None,
        "log_metric": lambda *metric: logged.append(metric),
    }
    assert reward(**GIVEN, **trainer) == values
    reward.close()


def test_columns_are_told_for_every_signature(signatures):
    needed = {
        name: load_rewards([f"{signatures}:{name}"])[0].columns
        for name in ("completions_only", "by_column", "scorer", "partial", "with_trainer")
    }
    assert needed == {
        "completions_only": [],
        "by_column": ["answer"],
        "scorer": [],
        "partial": [],
        "with_trainer": [],
    }


@pytest.mark.parametrize(("function", "said"), [("Scorer", "a class"), ("by_place", "by place only")])
def test_what_cannot_be_called_is_refused_with_the_remedy(signatures, function, said):
    with pytest.raises(UsageError, match=said):
        load_rewards([f"{signatures}:{function}"])


@pytest.mark.parametrize("content", ["import sys; sys.exit(3)", "raise RuntimeError('no')", "def f(:"])
def test_a_module_that_cannot_be_imported_is_one_line(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cannot_be_imported.py").write_text(content)
    with pytest.raises(UsageError, match="importing cannot_be_imported failed"):
        load_rewards(["cannot_be_imported:f"])
