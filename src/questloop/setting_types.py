"""What settings are made of: their types and choices, and which source of a value wins.

`questloop.settings` has the settings themselves.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal

from dotenv import dotenv_values
from dotenv.parser import Binding, parse_stream
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from questloop.errors import UsageError, message_of
from questloop.redaction import remember, remember_url, shown


def _auto_or_int(value: Any) -> Any:
    return value if value == "auto" else _int(value)


def _all_or_int(value: Any) -> Any:
    return value if value == "all" else _int(value)


def _int(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):  # a TOML file may hold a list, or inf
        raise ValueError("not a whole number") from None


def _of_a_header(value: SecretStr) -> SecretStr:
    """A secret that an HTTP header can hold."""
    odd = next((place for place, sign in enumerate(value.get_secret_value()) if not " " <= sign <= "~"), None)
    if odd is not None:
        raise ValueError(
            f"its character {odd + 1} is no printable ASCII, and no header can hold it; copy the key anew"
        )
    return value


def _path(value: Any) -> Any:
    """A path as people write it: `~` is theirs, and a $NAME that nothing has filled in is refused."""
    if not isinstance(value, str) or value.partition("://")[0] not in (value, "file"):
        return value
    if found := re.match(r"\$\{?\w+\}?", value):
        raise ValueError(f"{found[0]} is not filled in here; write the path out")
    lengths = [len(part.encode("utf-8", "surrogateescape")) for part in value.split("/")]
    if max(lengths) > 255 or sum(lengths) + len(lengths) > 4000:
        raise ValueError("it is longer than a path may be (255 bytes a name, 4,000 in all)")
    return os.path.expanduser(value)


def no_service_link(value: Any) -> Any:
    """Kubernetes sets METRICS_PORT=tcp://10.0.0.7:9090 where a Service is called metrics: not for us."""
    return 0 if isinstance(value, str) and value.startswith(("tcp://", "udp://", "sctp://")) else value


HeaderSecret = Annotated[SecretStr, AfterValidator(_of_a_header)]
AnyPath = Annotated[Path, BeforeValidator(_path)]
PathText = Annotated[str, BeforeValidator(_path)]
AutoInt = Annotated[Literal["auto"] | Annotated[int, Field(ge=1)], BeforeValidator(_auto_or_int)]
AutoCount = Annotated[Literal["auto"] | Annotated[int, Field(ge=0)], BeforeValidator(_auto_or_int)]
AllInt = Annotated[Literal["all"] | Annotated[int, Field(ge=1)], BeforeValidator(_all_or_int)]


class Observation(StrEnum):
    """What the policy sees."""

    VECTOR = "vector"
    VISUAL = "visual"


class LLMBackend(StrEnum):
    """Where judges and planner send their requests."""

    EMBEDDED = "embedded"
    ENDPOINT = "endpoint"
    DIRECT = "direct"
    GATEWAY = "gateway"


class Shaping(StrEnum):
    """How a potential is paid: that of the reward model, and that of the guide's aims."""

    PROGRESS = "progress"
    """its change; nothing where the game is over"""
    POTENTIAL = "potential"
    """its discounted change, which leaves the best policy what it is"""


class AimsOf(StrEnum):
    """Whose next aim a policy sees, and is paid for coming nearer to."""

    GUIDE = "guide"
    """what the guide's table says: the place and the thing in it"""
    JUDGES = "judges"
    """the place that judges score highest at the present stage of the quest"""
    OFF = "off"


def _aims(value: object) -> object:
    """Earlier releases had it on or off, as other switches are."""
    text = str(value).lower()
    if text in ("true", "t", "1", "yes", "y", "on"):
        return AimsOf.GUIDE
    return AimsOf.OFF if text in ("false", "f", "0", "no", "n") else value


AimsChoice = Annotated[AimsOf, BeforeValidator(_aims)]


class Placement(StrEnum):
    """Which machine a fleet job is put on."""

    PACK = "pack"
    SPREAD = "spread"


lower_values: ContextVar[Mapping[str, Any] | None] = ContextVar("lower_values", default=None)


class SettingsGroup(BaseSettings):
    """Settings of one concern. The first of arguments, environment, `.env` and TOML file decides."""

    model_config = SettingsConfigDict(
        env_file=".env",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        allow_inf_nan=False,
    )

    @model_validator(mode="before")
    @classmethod
    def _as_people_write_them(cls, values: Any) -> Any:
        """Without the space around a value, where files and secrets leave a newline; empty is unset.

        Quotes around a value are of a shell that did not read it (`docker --env-file`).
        """
        if not isinstance(values, dict):
            return values
        plain = {name: _unquoted(_stripped(value)) for name, value in values.items()}
        return {name: value for name, value in plain.items() if value != ""}

    def model_post_init(self, _: Any) -> None:
        """Keep secrets out of all that this process says from now on."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, SecretStr):
                remember(value.get_secret_value())
                remember_url(value.get_secret_value())
            elif isinstance(value, str) and "://" in value:
                remember_url(value)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Below the environment and `.env` stand the values of `load`'s file and defaults."""
        fallback = InitSettingsSource(settings_cls, dict(lower_values.get() or {}))
        return init_settings, env_settings, dotenv_settings, fallback


class Origin(StrEnum):
    """Where the value of a setting comes from, the strongest first."""

    OPTION = "option"
    ENVIRONMENT = "environment"
    DOTENV = ".env"
    FILE = "file"
    PRESET = "command's preset"
    DEFAULT = "default"


@dataclass(frozen=True)
class Sources:
    """The lower-case names of the settings that each source gave."""

    names: Mapping[Origin, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def now(cls, flags: Mapping[str, Any], file: Mapping[str, Any], preset: Mapping[str, Any]) -> Sources:
        """Of a command's options, its file and its preset, and of the environment as it is now."""

        def given(values: Mapping[str, Any]) -> frozenset[str]:
            return frozenset(name.lower() for name, value in values.items() if value not in (None, ""))

        environment, dotenv = given(os.environ), given(dotenv_values(".env"))
        return cls(
            {
                Origin.OPTION: given(flags),
                Origin.ENVIRONMENT: environment,
                Origin.DOTENV: dotenv,
                Origin.FILE: given(file),
                Origin.PRESET: given(preset),
            }
        )

    def of(self, *names: str) -> Origin:
        """Where the setting of these names, its own and its aliases, has its value from."""
        return next((origin for origin, known in self.names.items() if known & {*names}), Origin.DEFAULT)


def describe(error: ValidationError, given: Sources, config: Path | None, secret: set[str]) -> str:
    """Every setting with a wrong value: where it stands, the value unless it is secret, what is wrong."""
    problems = []
    for item in error.errors():
        name = ".".join(str(part) for part in item["loc"][:1])
        value = "" if name.lower() in secret else f"={_shortened(item['input'])}"
        told = f"{name.upper()}{value}: {message_of(item)}" if name else message_of(item)
        problems.append(f"{_place(given.of(name.lower()), name, config)}{told}")
    return "; ".join(dict.fromkeys(problems))


def _place(origin: Origin, name: str, config: Path | None) -> str:
    """Which line or file a setting stands in; empty where its name alone says where to look."""
    if origin is Origin.FILE:
        return f"--config {config}: "
    if origin is not Origin.DOTENV:
        return ""
    path = Path(".env")
    lines = [_line(each) for each in _bindings(path) if (each.key or "").lower() == name.lower()]
    return f"{path}, line {lines[-1]}: "


def _shortened(value: Any) -> str:
    text = repr(shown(value) if isinstance(value, str) and "://" in value else value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


_LONGEST = 120  # characters of a value that a message repeats


def _stripped(value: Any) -> Any:
    if isinstance(value, SecretStr):
        secret = value.get_secret_value().strip()
        return SecretStr(secret) if secret else ""
    return value.strip() if isinstance(value, str) else value


def _unquoted(value: Any) -> Any:
    quoted = isinstance(value, str) and len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1].strip() if quoted else value


FRAMES_PER_SECOND = 60
"""of the game at its own speed"""


LEARNS: dict[str, Any] = {
    "frame_skip": 16,
    "episode_length": 1_000,
    "epoch_steps": 102_400,
    "lr": 6e-4,
    "ppo_epochs": 4,
    "entropy_coef": 0.02,
    "value_clip": 1_000.0,
    "rnd_coef": 0.25,
    "reward_room": 0.05,
    "reward_tile": 0.001,
    "reward_health": -0.01,
    "reward_death": -0.25,
    "reward_key": 5.0,
    "planner": True,
}
"""What the loop's commands set in place of the defaults, since agents learn with it: a step of a whole
metatile, and rewards that prefer progress to touring. The defaults of the settings are those of the
first documents."""


def steps_of(seconds: float, frame_skip: int) -> int:
    """Steps that so many seconds of the game take, at least one."""
    return max(1, round(seconds * FRAMES_PER_SECOND / frame_skip))


def read_toml(path: Path, known: set[str]) -> dict[str, Any]:
    """The settings of a TOML file by lower-case name; `UsageError` for a file or a name that is none."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(
            f"--config {path}: {error.strerror}; give the path of a readable TOML file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path}: not TOML: {error}") from None
    values = {key.lower(): value for key, value in document.items()}
    unknown = sorted(set(values) - known)
    if unknown:
        named = ", ".join(f"{name}{_meant(name, known)}" for name in unknown)
        raise UsageError(f"--config {path}: unknown setting {named}; see docs/reference/settings.md")
    return values


def check_dotenv(path: Path, known: set[str]) -> list[str]:
    """What is odd in a `.env` file: each name that is nearly that of a setting, with its line.

    Other names are left alone, since the file may serve other programs too. Raises `UsageError` for a line
    that is no NAME=value, and for a file that cannot be read.
    """
    odd = []
    for binding in _bindings(path) if path.is_file() else ():
        line, name = _line(binding), (binding.key or "").lower()
        if binding.error or (binding.value is None and name in known):
            raise UsageError(f"{path}, line {line}: not NAME=value; mend the line, or begin it with #")
        meant = _meant(name, known)
        if name not in known and meant:
            odd.append(f"{path}, line {line}: {binding.key} is no setting and does nothing{meant}")
    return odd


def _bindings(path: Path) -> list[Binding]:
    try:
        return list(parse_stream(StringIO(path.read_text("utf-8"))))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; make it readable, or move it away") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start}); write it anew as UTF-8") from None


def _line(binding: Binding) -> int:
    """Of the file; a binding begins with the empty lines before it."""
    text = binding.original.string
    return binding.original.line + len(text) - len(text.lstrip("\r\n"))


_LONG = 9  # letters of a name that other programs hardly have one like
_COMMON = ("database_", "nats_", "s3_")  # beginnings of names that other programs have too


def check_environment(names: Iterable[str], known: set[str]) -> list[str]:
    """What is odd in the environment: each name that is one slip away from that of a setting.

    It serves every program, so that only long names of our own are looked after: one letter too many, too
    few or another one, or two that changed places.
    """
    own = [name for name in known if len(name) >= _LONG and "_" in name and not name.startswith(_COMMON)]
    odd = []
    for name in sorted(names):
        near = [] if name.lower() in known else [each for each in own if _one_slip(name.lower(), each)]
        if near:
            odd.append(
                f"environment: {name} is no setting and does nothing (did you mean {near[0].upper()}?)"
            )
    return odd


def _one_slip(name: str, other: str) -> bool:
    if name == other or abs(len(name) - len(other)) > 1:
        return False
    pairs = enumerate(zip(name, other, strict=False))
    place = next((at for at, (a, b) in pairs if a != b), min(len(name), len(other)))
    rest, others = name[place:], other[place:]
    swapped = rest[1:2] + rest[:1] + rest[2:]
    return others in (rest[1:], swapped) or others[1:] in (rest, rest[1:])


@cache
def warn_once(line: str) -> None:
    """Say it on standard error, once per process, however often settings are read."""
    print(f"warning: {line}", file=sys.stderr)


def _meant(name: str, known: set[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.8)
    return f" (did you mean {near[0].upper()}?)" if near else ""
