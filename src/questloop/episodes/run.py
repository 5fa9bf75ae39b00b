"""The identity of a run: game, seed and observation, fixed in its store when it begins."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict

from questloop.errors import BadDataError, UsageError, reason_of
from questloop.game.observation import OBSERVATION_VERSION
from questloop.game.rom import Rom
from questloop.settings import Settings
from questloop.storage import keys
from questloop.storage.schema import SchemaVersion
from questloop.storage.sealed import seal, unseal
from questloop.storage.store import AlreadyExists, NotFound, Store

_FIXED = ("rom_sha256", "seed", "observation", "frame_skip")


class Run(BaseModel):
    """`pipeline/run.json`, made once. A later command with other values of these is refused."""

    model_config = ConfigDict(frozen=True)

    schema_version: SchemaVersion = 1
    run: str
    game: str
    rom_sha256: str
    seed: int
    observation: str
    observation_version: int
    frame_skip: int
    created: datetime


def open_run(store: Store, settings: Settings) -> Run:
    """The run of `store`, begun now where the store is new.

    Its id is made of the game and the seed, so that the same settings give the same ids in another store.
    Raises `UsageError` where the store holds a run of other settings, `BadDataError` where its observations
    have another layout.
    """
    rom = Rom.load(settings.game.rom_path)
    game = rom.path.stem
    wanted = Run(
        run=run_id(game, settings.loop.seed),
        game=game,
        rom_sha256=rom.sha256,
        seed=settings.loop.seed,
        observation=settings.training.observation.value,
        observation_version=OBSERVATION_VERSION,
        frame_skip=settings.game.frame_skip,
        created=datetime.now(UTC),
    )
    try:
        store.put_if_absent(keys.run(), seal(wanted, indent=1))
    except AlreadyExists:
        return _same(read_run(store), wanted, store.url)
    return wanted


def read_run(store: Store) -> Run:
    """The run of `store`; `BadDataError` where it has none or its document cannot be read."""
    try:
        return unseal(store.get(keys.run()), Run)
    except NotFound:
        raise BadDataError(f"store {store.url} holds no run; begin one with `questloop pipeline`") from None
    except ValueError as error:
        raise BadDataError(
            f"{keys.run()}: not a run: {reason_of(error)}; put back a copy, or mend its values and take out "
            "its digest"
        ) from None


def run_id(game: str, seed: int) -> str:
    """A run's id, 1 to 32 lower-case letters, digits and hyphens.

    >>> run_id("Mossgrove!", 3)
    'mossgrove-s3'
    """
    tail = f"-s{seed}"
    name = re.sub(r"[^a-z0-9]+", "-", game.lower()).strip("-") or "game"
    return name[: 32 - len(tail)].rstrip("-") + tail


def _same(standing: Run, wanted: Run, url: str) -> Run:
    if standing.observation_version != wanted.observation_version:
        raise BadDataError(
            f"store {url}: its run has observation layout {standing.observation_version}, this version of "
            f"questloop has {wanted.observation_version}; begin a run in another STORE_URL, or go on with "
            "the release that wrote it"
        )
    for name in _FIXED:
        was, now = getattr(standing, name), getattr(wanted, name)
        if was != now:
            raise UsageError(
                f"store {url} holds run {standing.run} with {name} {was}, and now it is {now}; "
                "resume with the value it began with, or name another STORE_URL"
            )
    return standing
