"""One declarative module per game; `profile_for` finds the one that plays a ROM.

Besides the bundled ones, installed packages name theirs by entry points of the group `questloop.profiles`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from questloop.errors import UsageError
from questloop.game.guide import Guide
from questloop.game.profile import Profile
from questloop.game.profile_check import faults
from questloop.game.profiles.named import named_profile
from questloop.game.rom import Rom
from questloop.settings import GameSettings

GROUP = "questloop.profiles"


@dataclass(frozen=True)
class BrokenProfile:
    """A profile of another package that cannot be used: why, and the titles that it would have played."""

    why: str
    titles: tuple[str, ...] = ()


def profiles() -> tuple[Profile, ...]:
    """Every game known; those of other packages come first, so that one may take over a bundled game."""
    from questloop.game.profiles import mossgrove, oracle_of_seasons

    return (*_installed()[0], mossgrove.PROFILE, oracle_of_seasons.PROFILE)


def broken_profiles() -> tuple[BrokenProfile, ...]:
    """Profiles of other packages that do not load or are not whole; other games are played all the same."""
    return _installed()[1]


def profile_for(rom: Rom, guide: Path | None = None, named: str | None = None) -> Profile:
    """The profile that plays `rom`: the one `named` (see `named.named_profile`), else the one that knows its
    digest, else the one that knows the title in its header.

    `guide` names a Markdown file whose guide stands in for the profile's own. Raises `UsageError` where no
    profile plays it, where two of other packages do, or where one that is broken would.
    """
    profile = named_profile(named, profiles()) if named else _known(rom)
    return profile if guide is None else replace(profile, guide=Guide.read(guide))


def profile_in_force(game: GameSettings) -> Profile:
    """The profile that plays the settings' ROM, with the guide that they name."""
    return profile_for(Rom.load(game.rom_path), game.guide, game.game_profile)


def _known(rom: Rom) -> Profile:
    known = profiles()
    for profile in _one(rom, [profile for profile in known if rom.sha256 in profile.sha256s]):
        return profile
    broken = broken_profiles()
    for each in broken:
        if any(rom.title.startswith(title) for title in each.titles):
            raise UsageError(each.why)
    for profile in _one(rom, [each for each in known if any(rom.title.startswith(t) for t in each.titles)]):
        return profile
    titles = ", ".join(sorted(title for profile in known for title in profile.titles))
    raise UsageError(
        f"ROM {rom.path} has the title {rom.title!r}, which no game profile plays ({titles});"
        " name one by GAME_PROFILE, or write one as docs/howto/add-a-game.md shows"
        f"{''.join(f'; {each.why}' for each in broken)}"
    )


def _one(rom: Rom, found: list[Profile]) -> list[Profile]:
    """The first of those that play a ROM; two of other packages are one too many."""
    installed = [profile for profile in found if any(profile is each for each in _installed()[0])]
    if len(installed) > 1:
        names = " and ".join(profile.name for profile in installed)
        raise UsageError(
            f"ROM {rom.path} ({rom.title!r}) is played by the game profiles {names}; uninstall all but one"
        )
    return found


@cache
def _installed() -> tuple[tuple[Profile, ...], tuple[BrokenProfile, ...]]:
    found = [_load(entry) for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)]
    return (
        tuple(each for each in found if isinstance(each, Profile)),
        tuple(each for each in found if isinstance(each, BrokenProfile)),
    )


def _load(entry: EntryPoint) -> Profile | BrokenProfile:
    where = f"game profile {entry.name} ({entry.value})"
    try:
        profile = entry.load()
    except (Exception, SystemExit) as error:  # it is another package's code
        return BrokenProfile(f"{where} does not load: {error}")
    if not isinstance(profile, Profile):
        return BrokenProfile(f"{where} is no Profile but {type(profile).__name__}")
    found = faults(profile)
    if not found:
        return profile
    titles = [title for title in profile.titles if isinstance(title, str) and title.strip()]
    return BrokenProfile(f"{where} is not whole: {'; '.join(found)}", tuple(titles))
