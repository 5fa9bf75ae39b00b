"""Finds reward functions by name and checks every call, under a time limit if asked to.

A reward function has the signature `f(prompts, completions, **columns) -> list[float | None]`, one value a
completion; None abstains.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import math
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from questloop.errors import BadDataError, UsageError
from questloop.grpo.rewards import BUILTIN_REWARDS
from questloop.grpo.text import RewardFunction

logger = logging.getLogger(__name__)

DEFAULT_TIMEOUT_S = 60.0
# A reward function that has to be stopped this many times in a row ends the run.
MAX_TIMEOUTS_IN_A_ROW = 3
# Live objects of the trainer, which cannot be sent to another process, and all that it passes beside columns.
_NOT_SENT = {"trainer_state", "log_extra", "log_metric", "environments"}
_FROM_TRAINER = {"prompts", "completions", "completion_ids"} | _NOT_SENT
# Time for starting Python and importing the user's module, which is not the function's own.
_START_LIMIT_S = 120.0


class RewardError(BadDataError):
    """A reward function raised, returned the wrong number of values, or did not end in time."""


@dataclass
class Reward:
    """A reward function with its name and weight, checked on every call.

    `timeout_s` 0 runs it in this process; otherwise it runs in a process of its own, which is stopped when it
    does not answer in time (a thread cannot be stopped, and a signal works on the main thread only). It then
    gets the columns but not `trainer_state`, `log_extra` and `log_metric`.
    """

    name: str
    function: RewardFunction
    weight: float = 1.0
    timeout_s: float = 0.0
    invalid: Counter[str] = field(default_factory=Counter)
    _worker: _Worker | None = None
    _timeouts: int = 0

    @property
    def __name__(self) -> str:
        """The name in metrics."""
        return self.name

    @property
    def columns(self) -> list[str]:
        """The columns of the data that the function cannot do without."""
        return [name for name in _required(self.function) if name not in _FROM_TRAINER]

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], **kwargs: Any
    ) -> list[float | None]:
        """Score B completions: B finite floats or None. Raises `RewardError` naming the function."""
        values = self._run(prompts=prompts, completions=completions, **kwargs)
        if not isinstance(values, (list, tuple)):
            values = _as_list(self.name, values)
        if len(values) != len(completions):
            raise RewardError(
                f"reward function {self.name} returned {len(values)} values for {len(completions)} "
                "completions; return one float or None a completion"
            )
        invalid_before = self.invalid.total()
        checked = [self._checked(value, row) for row, value in enumerate(values)]
        if "log_metric" in kwargs:
            kwargs["log_metric"](f"rewards/{self.name}/invalid", self.invalid.total() - invalid_before)
        return checked

    def close(self) -> None:
        """Stop the process of the function, if there is one."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def _run(self, **kwargs: Any) -> Any:
        if not self.timeout_s:
            try:
                return call(self.function, kwargs)
            except Exception as error:
                raise RewardError(_raised(self.name, repr(error))) from error
        if self._worker is None:
            self._worker = _Worker(self.name)
        columns = {key: value for key, value in kwargs.items() if key not in _NOT_SENT}
        try:
            values = self._worker.call(columns, self.timeout_s)
        except TimeoutError:
            self.close()
            return self._abstain(len(kwargs["completions"]))
        self._timeouts = 0
        return values

    def _abstain(self, rows: int) -> list[None]:
        self._timeouts += 1
        self.invalid["timeout"] += rows
        problem = f"reward function {self.name} did not end within {self.timeout_s:g} s"
        if self._timeouts >= MAX_TIMEOUTS_IN_A_ROW:
            raise RewardError(
                f"{problem}, {self._timeouts} times in a row; make it faster or raise --reward_timeout_s"
            )
        logger.warning("%s: %d completions go without it", problem, rows)
        return [None] * rows

    def _checked(self, value: Any, row: int) -> float | None:
        if value is None:
            return None
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise RewardError(
                f"reward function {self.name} returned {value!r} for completion {row}; return a float or None"
            ) from None
        if math.isfinite(number):
            return number
        if not self.invalid["not_finite"]:
            logger.warning(
                "reward function %s returned %s for completion %d: taken as None", self.name, number, row
            )
        self.invalid["not_finite"] += 1
        return None


def load_rewards(
    names: Sequence[str], weights: Sequence[float] | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
) -> list[Reward]:
    """Load reward functions by built-in name or `module:function`; only the user's own get a time limit.

    >>> [reward.name for reward in load_rewards(["correctness", "strict_format"], weights=[2, 0.5])]
    ['correctness', 'strict_format']
    """
    if not names:
        raise UsageError(
            f"--reward_function: name at least one of {', '.join(BUILTIN_REWARDS)} or module:function"
        )
    if weights and len(weights) != len(names):
        raise UsageError(
            f"--reward_weights: {len(weights)} weights for {len(names)} reward functions; give each one"
        )
    if len(set(names)) != len(names):
        raise UsageError(
            f"--reward_function: {', '.join(names)} names a function twice; use --reward_weights"
        )
    functions = [resolve(name) for name in names]
    for name, function in zip(names, functions, strict=True):
        _check_signature(name, function)
    limits = [
        0.0 if name in BUILTIN_REWARDS or _NOT_SENT & set(_required(function)) else timeout_s
        for name, function in zip(names, functions, strict=True)
    ]
    given = zip(names, functions, weights or [1.0] * len(names), limits, strict=True)
    return [Reward(name, function, weight, limit) for name, function, weight, limit in given]


def call(function: Callable[..., Any], columns: Mapping[str, Any]) -> Any:
    """Call a reward function with what it takes of `columns`; a coroutine is run to its end."""
    parameters = _parameters(function)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        taken = dict(columns)
    else:
        names = {parameter.name for parameter in parameters}
        taken = {name: value for name, value in columns.items() if name in names}
    result = function(**taken)
    if inspect.isawaitable(result):

        async def wait() -> Any:
            return await result

        return asyncio.run(wait())
    return result


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def _required(function: Callable[..., Any]) -> list[str]:
    """The names that the function cannot be called without."""
    return [
        parameter.name
        for parameter in _parameters(function)
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]


def _check_signature(name: str, function: Callable[..., Any]) -> None:
    if inspect.isclass(function):
        raise UsageError(
            f"--reward_function {name}: a class; name an object of it, for example `score = "
            f"{function.__name__}()` in the module and module:score here"
        )
    try:
        parameters = _parameters(function)
    except (TypeError, ValueError):
        raise UsageError(
            f"--reward_function {name}: what it takes cannot be told; write def f(completions, **kwargs)"
        ) from None
    only = [item.name for item in parameters if item.kind is item.POSITIONAL_ONLY]
    if only:
        raise UsageError(
            f"--reward_function {name}: {', '.join(only)} can be given by place only, and columns are given "
            "by name: leave out the `/`"
        )


def resolve(name: str) -> RewardFunction:
    """Return the function that `name` stands for. Raises `UsageError` saying what was looked for."""
    if name in BUILTIN_REWARDS:
        return BUILTIN_REWARDS[name]
    if ":" not in name:
        raise UsageError(
            f"--reward_function {name}: no built-in reward of that name; choose from "
            f"{', '.join(BUILTIN_REWARDS)}, or give your own as module:function"
        )
    return load_function(name, option="--reward_function")


def load_function(name: str, option: str) -> Callable[..., Any]:
    """Import `module:function`, from the current folder too. `option` is the flag that errors name."""
    module_name, _, attribute = name.partition(":")
    if not (module_name and attribute.isidentifier()):
        raise UsageError(f"{option} {name}: write it as module:function, for example my_rewards:score")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.split(".")[0] == error.name.split(".")[0]:
            raise UsageError(
                f"{option} {name}: no module {error.name} in {folder} or on PYTHONPATH; run from the folder "
                f"that holds {module_name.replace('.', '/')}.py or set PYTHONPATH"
            ) from None
        raise UsageError(
            f"{option} {name}: {module_name} needs {error.name}, which is not installed"
        ) from None
    except (Exception, SystemExit) as error:  # the latter of a script without `if __name__ == "__main__"`
        raise UsageError(f"{option} {name}: importing {module_name} failed: {error!r}") from error
    function = getattr(module, attribute, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value) and key[0] != "_"]
        what = "is not a function" if function is not None else "does not exist"
        raise UsageError(
            f"{option} {name}: {attribute} {what} in {module_name}; it has {', '.join(known) or 'none'}"
        )
    return function


class _Worker:
    """One process that serves calls of one reward function."""

    def __init__(self, name: str) -> None:
        self.name = name
        # spawn: a fork of a process with CUDA or threads is not safe
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(name, theirs, os.getcwd()), daemon=True)
        self.process.start()
        theirs.close()
        self._ready = False

    def call(self, kwargs: dict[str, Any], timeout_s: float) -> Any:
        """Return what the function returns. Raises `TimeoutError` when it does not answer in time."""
        if not self._ready:
            self._receive(_START_LIMIT_S)
            self._ready = True
        self.connection.send(kwargs)
        return self._receive(timeout_s)

    def stop(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join()
        self.connection.close()

    def _receive(self, timeout_s: float) -> Any:
        if not self.connection.poll(timeout_s):
            raise TimeoutError
        try:
            ok, value = self.connection.recv()
        except EOFError:
            self.process.join()
            raise RewardError(
                f"reward function {self.name}: its process ended with exit code {self.process.exitcode}"
            ) from None
        if not ok:
            raise RewardError(_raised(self.name, value))
        return value


def _serve(name: str, connection: Any, folder: str) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.chdir(folder)
    try:
        function = resolve(name)
        connection.send((True, None))
    except Exception as error:
        connection.send((False, str(error)))
        return
    while True:
        try:
            kwargs = connection.recv()
        except EOFError:
            return
        try:
            reply = (True, _plain(call(function, kwargs)))
        except Exception as error:
            reply = (False, repr(error))
        connection.send(reply)


def _plain(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _as_list(name: str, values: Any) -> list[Any]:
    try:
        return _plain(values)
    except TypeError:
        raise RewardError(
            f"reward function {name} returned {type(values).__name__}; "
            "return a list of one float or None a completion"
        ) from None


def _raised(name: str, error: str) -> str:
    return f"reward function {name} raised {error}"
