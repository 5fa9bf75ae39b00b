"""Learns from a server's refusals what it does not accept in a request, and remembers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from questloop.llm.reply import ChatError, ChatFailure

Body = Mapping[str, Any]


@dataclass(frozen=True)
class _Change:
    """Another way to say the same; `words` name what is refused in the server's message."""

    words: tuple[str, ...]
    applies: Callable[[Body], bool]
    make: Callable[[Body], dict[str, Any]]


def _without(body: Body, name: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != name}


def _format(body: Body) -> str:
    return str(body.get("response_format", {}).get("type"))


_SCHEMA = ("response_format", "json_schema", "json schema", "json mode", "guided", "grammar", "structured")
_CHANGES = (
    _Change(
        _SCHEMA,
        lambda body: _format(body) == "json_schema",
        lambda body: {**body, "response_format": {"type": "json_object"}},
    ),
    _Change(
        (*_SCHEMA, "json_object"),
        lambda body: _format(body) == "json_object",
        lambda body: _without(body, "response_format"),
    ),
    _Change(
        ("max_tokens", "max_completion_tokens"),
        lambda body: "max_tokens" in body,
        lambda body: _without(body, "max_tokens") | {"max_completion_tokens": body["max_tokens"]},
    ),
    _Change(("temperature",), lambda body: "temperature" in body, lambda body: _without(body, "temperature")),
    _Change(("seed",), lambda body: "seed" in body, lambda body: _without(body, "seed")),
)


@dataclass
class Dialect:
    """How one model of one server is asked.

    What a refusal names is left out, or said in another way, from then on. A refusal that names nothing is
    answered by trying the changes in turn, as long as no request has gone through; where none helps it was
    about something else, and they are taken back.
    """

    taken: tuple[int, ...] = ()
    """the changes in force, in the order in which they were made"""
    _guessed: list[int] = field(default_factory=list)
    _settled: bool = False

    def write(self, body: Body) -> dict[str, Any]:
        """The request in the form that the server takes."""
        said = dict(body)
        for number in self.taken:
            if _CHANGES[number].applies(said):
                said = _CHANGES[number].make(said)
        return said

    def worked(self, taken: tuple[int, ...]) -> None:
        """A request under these changes went through."""
        if taken == self.taken:
            self._settled = True

    def refused(self, error: ChatError, body: Body, taken: tuple[int, ...]) -> bool:
        """Whether to ask again at once, after a refusal of `body` as written under the changes `taken`."""
        if error.reason not in (ChatFailure.REFUSED, ChatFailure.SERVER_ERROR):
            return False
        if taken != self.taken:  # another request has learned meanwhile
            return len(self.taken) > len(taken)
        fitting = [number for number, change in enumerate(_CHANGES) if change.applies(body)]
        named = [number for number in fitting if any(word in error.said for word in _CHANGES[number].words)]
        if named:
            self.taken = (*taken, named[0])
            return True
        unclear = error.reason is ChatFailure.REFUSED and error.status in (400, 422)
        if not unclear or self._settled or body.get("n", 1) > 1:
            return False
        if not fitting:
            self.taken = tuple(number for number in taken if number not in self._guessed)
            self._settled = True
            return False
        self._guessed.append(fitting[0])
        self.taken = (*taken, fitting[0])
        return True
