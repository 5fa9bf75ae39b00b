"""The profile that GAME_PROFILE names: a known game's, one in a file, or one in a module."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

from questloop.errors import UsageError
from questloop.game.profile import Profile
from questloop.game.profile_check import faults

OBJECT = "PROFILE"
"""What a file or module calls its profile."""


def named_profile(name: str, known: tuple[Profile, ...] = ()) -> Profile:
    """The profile of one of the `known` games by its name, that of a file (`lantern.py`), or that of a module
    (`lantern`, `lantern.games:PROFILE`). Raises `UsageError` where there is none, or it is not whole."""
    profile = load_profile(name, known)
    found = faults(profile)
    if found:
        raise UsageError(f"GAME_PROFILE {name} is not whole: {'; '.join(found)}")
    return profile


def load_profile(name: str, known: tuple[Profile, ...] = ()) -> Profile:
    """The same, whole or not: for who wants to see what is wrong with it."""
    if name.endswith(".py"):
        return _file(str(Path(name).expanduser().absolute()))
    for profile in known:
        if profile.name == name:
            return profile
    module, _, attribute = name.partition(":")
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        games = ", ".join(profile.name for profile in known)
        raise UsageError(
            f"GAME_PROFILE {name}: neither a known game ({games}), nor a .py file, nor a module that loads"
            f" ({type(error).__name__}: {error})"
        ) from error
    return _profile_of(found, attribute or OBJECT, f"GAME_PROFILE {name}")


@cache
def _file(path: str) -> Profile:
    where = f"GAME_PROFILE {path}"
    spec = importlib.util.spec_from_file_location(f"questloop_profile_{Path(path).stem}", path)
    try:
        if spec is None or spec.loader is None:
            raise ImportError("no Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{where} does not load: {type(error).__name__}: {error}") from error
    return _profile_of(module, OBJECT, where)


def _profile_of(module: ModuleType, attribute: str, where: str) -> Profile:
    found = getattr(module, attribute, None)
    if not isinstance(found, Profile):
        raise UsageError(f"{where}: {attribute} is no Profile but {type(found).__name__}")
    return found
