"""What a model answered, or why it did not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from questloop.errors import UnavailableError


@dataclass(frozen=True)
class ReplyChoice:
    """One sampled completion."""

    text: str
    finish_reason: str
    """`stop`, `length` (cut off) or what the server says"""


@dataclass(frozen=True)
class Usage:
    """Tokens of a request."""

    prompt: int = 0
    completion: int = 0
    cached: int | None = None
    """prompt tokens served from the prefix cache; None: the server does not say"""


@dataclass(frozen=True)
class Reply:
    """The answer to one chat request."""

    choices: tuple[ReplyChoice, ...]
    model: str
    usage: Usage
    latency_s: float
    """seconds of the attempt that succeeded, waiting for a free slot excluded"""
    attempts: int
    request_id: str
    failover_from: str | None = None
    """the model that failed before this one was asked"""


class ChatFailure(StrEnum):
    """Why a request has no reply."""

    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    CONNECTION = "connection"
    TLS = "tls"
    OVERLOADED = "overloaded"
    QUOTA = "quota"
    SERVER_ERROR = "server_error"
    AUTH = "auth"
    REFUSED = "refused"
    CONTENT_TYPE = "content_type"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"


TRANSIENT = frozenset(
    {
        ChatFailure.TIMEOUT,
        ChatFailure.UNREACHABLE,
        ChatFailure.CONNECTION,
        ChatFailure.OVERLOADED,
        ChatFailure.SERVER_ERROR,
        ChatFailure.MALFORMED,
    }
)


FINAL = frozenset({ChatFailure.AUTH, ChatFailure.TLS, ChatFailure.QUOTA})
"""what no other request to the same server would mend"""


class ChatError(UnavailableError):
    """A request failed for good."""

    def __init__(
        self,
        reason: ChatFailure,
        message: str,
        status: int | None = None,
        retry_after_s: float | None = None,
        said: str = "",
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status
        self.retry_after_s = retry_after_s
        self.said = said
        """the server's words in lower case, longer than the message"""

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.reason in TRANSIENT
