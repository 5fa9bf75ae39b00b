"""One declarative module a game; `profile_for` finds the one that plays a ROM.

Besides the bundled ones, installed packages name theirs by entry points of the group `questloop.profiles`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from questloop.errors import UsageError
from questloop.game.guide import Guide
from questloop.game.profile import Profile
from questloop.game.rom import Rom

GROUP = "questloop.profiles"


def profiles() -> tuple[Profile, ...]:
    """Every game known; those of other packages come first, so that one may take over a bundled game."""
    from questloop.game.profiles import mossgrove, oracle_of_seasons

    return (*_installed(), mossgrove.PROFILE, oracle_of_seasons.PROFILE)


def profile_for(rom: Rom, guide: Path | None = None) -> Profile:
    """The profile that plays `rom`, by its digest or else by the title in its header.

    `guide` names a Markdown file whose guide stands in for the profile's own. Raises `UsageError`.
    """
    profile = _known(rom)
    return profile if guide is None else replace(profile, guide=Guide.read(guide))


def _known(rom: Rom) -> Profile:
    known = profiles()
    for profile in known:
        if rom.sha256 in profile.sha256s:
            return profile
    for profile in known:
        if any(rom.title.startswith(title) for title in profile.titles):
            return profile
    titles = ", ".join(sorted(title for profile in known for title in profile.titles))
    raise UsageError(
        f"ROM {rom.path} has the title {rom.title!r}, which no game profile plays ({titles});"
        " write one as docs/howto/add-a-game.md shows"
    )


@cache
def _installed() -> tuple[Profile, ...]:
    return tuple(_load(entry) for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name))


def _load(entry: EntryPoint) -> Profile:
    try:
        profile = entry.load()
    except Exception as error:
        raise UsageError(f"game profile {entry.name} ({entry.value}) does not load: {error}") from error
    if not isinstance(profile, Profile):
        raise UsageError(
            f"game profile {entry.name}: {entry.value} is no Profile but {type(profile).__name__}"
        )
    return profile
