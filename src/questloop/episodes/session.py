"""What a run was played with: the settings, versions and machine of each process that wrote its store."""

from __future__ import annotations

import platform
import shutil
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from questloop.errors import BadDataError, reason_of
from questloop.machine import machine_cores, machine_memory_mb, processor_name
from questloop.redaction import hide, shown
from questloop.setting_types import Origin
from questloop.settings import GROUPS, Settings
from questloop.storage import keys
from questloop.storage.commit import to_json
from questloop.storage.schema import SchemaVersion
from questloop.storage.store import Store, folder_path

PACKAGES = ("questloop", "ray", "torch", "numpy", "pyboy", "gymnasium")
MOST_NOTES = 20_000
"""characters that a person may write about a run"""
_MB = 1 << 20


class SettingValue(BaseModel):
    """A setting as it was in force; secrets only say whether they were set."""

    model_config = ConfigDict(frozen=True)

    name: str  # in capitals, as the environment has it
    group: str
    value: str | None  # None: unset
    default: str | None
    origin: Origin
    what: str  # its description


class Session(BaseModel):
    """`pipeline/sessions/{fence}.json`: one process that wrote the store."""

    model_config = ConfigDict(frozen=True)

    schema_version: SchemaVersion = 1
    fence: int
    started: datetime
    command: str
    settings: tuple[SettingValue, ...]
    versions: dict[str, str]
    machine: dict[str, str | int | None]
    """`system`, `python`, `processor`, `cores` that this process may use, `memory_mb` that was free for it,
    and, of a store in a folder, `disk_free_mb` and `disk_mb`"""


class Notes(BaseModel):
    """`pipeline/notes.json`: what a person wrote about the run, plain text."""

    schema_version: SchemaVersion = 1
    text: str = ""
    changed: datetime | None = None


def note_session(store: Store, settings: Settings, fence: int) -> None:
    """Write down what this process, which holds the store's lease, works with."""
    session = Session(
        fence=fence,
        started=datetime.now(UTC),
        command=hide(" ".join([Path(sys.argv[0]).name, *sys.argv[1:]])),
        settings=tuple(setting_values(settings)),
        versions=_versions(),
        machine=_machine(store.url),
    )
    store.put(keys.session(fence), to_json(session))


def read_sessions(store: Store) -> list[Session]:
    """Every process that wrote the store, the first one first; empty for a run of a release before."""
    found = []
    for key in sorted(entry.key for entry in store.list(keys.sessions_prefix())):
        try:
            found.append(Session.model_validate_json(store.get(key)))
        except ValidationError as error:
            raise BadDataError(f"{key}: not a session: {reason_of(error)}") from None
    return found


def setting_values(settings: Settings) -> list[SettingValue]:
    """Every setting with its value, its default and where the value comes from."""
    values = []
    for kind in GROUPS:
        group = next(each for each in vars(settings).values() if isinstance(each, kind))
        for name, field in kind.model_fields.items():
            aliases = [str(each) for each in getattr(field.validation_alias, "choices", ())]
            values.append(
                SettingValue(
                    name=name.upper(),
                    group=kind.__name__.removesuffix("Settings").lower(),
                    value=_text(getattr(group, name)),
                    default=_text(field.default),
                    origin=settings.sources.of(name, *aliases),
                    what=field.description or "",
                )
            )
    return values


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, SecretStr):
        return "set"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return shown(str(value)) if "://" in str(value) else hide(str(value))


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _machine(url: str) -> dict[str, str | int | None]:
    facts: dict[str, str | int | None] = {
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "processor": processor_name(),
        "cores": machine_cores(),
        "memory_mb": round(machine_memory_mb()),
    }
    if not url.startswith("s3://"):
        disk = shutil.disk_usage(folder_path(url))
        facts |= {"disk_free_mb": disk.free // _MB, "disk_mb": disk.total // _MB}
    return facts
