"""One declarative module a game; `profile_for` finds the one that plays a ROM."""

from __future__ import annotations

from questloop.errors import UsageError
from questloop.game.profile import Profile
from questloop.game.rom import Rom

_PROFILES: dict[str, Profile] = {}


def register(profile: Profile) -> Profile:
    """Make a game known; a profile registered later takes a ROM before an earlier one."""
    _PROFILES[profile.name] = profile
    return profile


def profiles() -> tuple[Profile, ...]:
    """Every game known, the latest registered first."""
    _register_bundled()
    return tuple(reversed(_PROFILES.values()))


def profile_for(rom: Rom) -> Profile:
    """The profile that plays `rom`, by its digest or else by the title in its header."""
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


def _register_bundled() -> None:
    from questloop.game.profiles import mossgrove, oracle_of_seasons

    for profile in (oracle_of_seasons.PROFILE, mossgrove.PROFILE):
        _PROFILES.setdefault(profile.name, profile)
