"""The quest's next aim: what the policy sees of it, and what coming nearer to it pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from questloop.game.actions import ACTION_COUNT, Action
from questloop.game.guide import NOWHERE, Guide
from questloop.game.walking import SIDES, Ground, Walk, cell_costs, room_size, walk_over, walk_to_tile
from questloop.rewards.terms import Latches, Slots
from questloop.setting_types import AimsOf, Shaping

if TYPE_CHECKING:
    from questloop.game.columns import Columns
    from questloop.game.profile import Profile
    from questloop.settings import ExplorationSettings

AIM_SIZE = 4
"""Numbers per slot that `Aims.seen_by` gives."""

LEAD = 2.0
"""Weight on logits: an action that the aim points to is some seven times as likely at the start."""

NO_AIM = -1

_HALF_WAY = 8.0
"""Metatiles at which a target within a room counts as half a room away."""
_KEPT_WALKS = 4096

Grounds = Callable[[int], Ground]
"""What the room of a slot is made of."""


class Aims(Latches):
    """Rewards for progress towards the next aim of the guide, for N slots.

    Where it leads is what the guide says, or, at every stage of the quest, the place that judges chose.

    The potential counts rooms along the guide's route: every aim done adds the length of its leg, and what
    remains of the leg in force is subtracted: the rooms still to cross, and in this one `d / (d + 8)` for a
    target `d` metatiles of walking away. It never falls on entering the next room of the route.

    A step pays, in units of a room, the potential's change `phi(s') - phi(s)` (`Shaping.PROGRESS`), nothing
    where the game is over; or its discounted change `gamma phi(s') - phi(s)`, where the potential of a state
    in which the game is over or finished is 0 (`Shaping.POTENTIAL`). An episode's potential is unknown, and
    pays nothing, until its hero can first walk.

    Sources: `rewards.shaping`; Devlin and Kudenko 2012, "Dynamic potential-based reward shaping" (the
    potential may change while it is learned from).
    """

    names = ("aim",)

    def __init__(
        self,
        n: int,
        profile: Profile,
        guide: Guide,
        grounds: Grounds,
        shaping: Shaping = Shaping.PROGRESS,
        gamma: float = 0.99,
        judged: bool = False,
    ) -> None:
        """`grounds`: asked when a slot's room has changed; `gamma`: the learner's discount per step.

        `judged`: it points nowhere until `lead_to` tells the places that judges chose.
        """
        self._profile, self._grounds = profile, grounds
        self._shaping, self._gamma = shaping, gamma
        keys = [milestone.key for milestone in profile.milestones]
        self._bits = np.array([keys.index(aim.key) for aim in guide.aims], np.object_)
        self._goal = sum(1 << bit for bit, key in enumerate(keys) if key == profile.goal)
        self._phi = np.full(n, np.nan, np.float32)  # NaN: not known yet in this episode
        self._of = np.zeros(n, np.int64)  # which guide and which places the potential is of
        super().__init__(phi=self._phi, of=self._of)
        self.aim = np.full(n, NO_AIM, np.int64)
        """i64 [N]: index of each slot's next aim in `guide.aims`, `NO_AIM` where all are done."""
        self._steps = np.zeros(len(guide.aims), np.int64)
        self._place = np.full(n, -1, np.int32)
        self._collisions = np.zeros((n, 11, 16), np.uint8)
        self._rooms = np.zeros(n, np.float32)
        self._known = np.zeros(n, np.bool_)  # whether a route leads to the aim
        self._distance = np.zeros((n, 176), np.float32)
        self._step = np.full((n, 176), -1, np.int8)
        self._solid = np.zeros((n, 176), np.bool_)
        self._slots = np.arange(n)
        self._walk = lru_cache(_KEPT_WALKS)(self._walk_of)
        self._take(guide.leading([NOWHERE] * len(guide.aims)) if judged else guide)

    def lead_to(self, places: Sequence[int]) -> None:
        """Point to these places, one per aim of the guide, `NOWHERE` where none is known.

        Where they differ from those before, what is earned begins anew with the next step.
        """
        led = self._guide.leading(places)
        if led.aims != self._guide.aims:
            self._take(led)

    def _take(self, guide: Guide) -> None:
        self._guide = guide
        self._is = crc32(repr((guide.ways, guide.aims)).encode())
        self._credit = np.cumsum(_legs(guide), dtype=np.float32)
        self._place[:] = -1
        self._walk.cache_clear()

    def reset(self, slots: Slots, columns: Columns) -> None:
        self._place[slots] = -1
        self._follow(columns)
        self._phi[slots] = np.nan
        begun = np.zeros(len(self._phi), np.bool_)
        begun[slots] = True
        self._weigh(columns, begun & _playing(columns))

    def step(self, columns: Columns, out: NDArray[np.float32]) -> None:
        self._follow(columns)
        before, playing = self._phi.copy(), _playing(columns)
        self._weigh(columns, playing)
        self._steps += np.bincount(self.aim[playing & (self.aim != NO_AIM)], minlength=len(self._steps))
        if self._shaping is Shaping.PROGRESS:
            change = np.where(columns.game_over, 0, self._phi - before)
        else:
            over = columns.game_over | (columns.milestones & self._goal != 0)
            change = self._gamma * np.where(over, 0, self._phi) - before
        out[0] = np.nan_to_num(change)

    def take_steps(self) -> dict[str, int]:
        """Steps of all slots since the last call, by the key of the aim that was next."""
        keys = (aim.key for aim in self._guide.aims)
        taken = {key: steps for key, steps in zip(keys, self._steps.tolist(), strict=True) if steps}
        self._steps[:] = 0
        return taken

    def load_state_dict(self, state: dict[str, NDArray]) -> None:
        """Take over what was earned. Under another guide, or led elsewhere, it begins anew."""
        super().load_state_dict({"of": np.full_like(self._of, self._is)} | state)
        self._place[:] = -1

    def look(self, columns: Columns) -> NDArray[np.float32]:
        """`seen_by` where nobody steps: for whoever plays without rewards."""
        self._follow(columns)
        return self.seen_by(columns)

    def seen_by(self, columns: Columns) -> NDArray[np.float32]:
        """What the policy sees of the aim, f32 [N, 4] in [-1, 1]; zeros where none can be told.

        Pixels right and down to the next metatile on the way, / 16; closeness, 1 / (1 + rooms left); 1 where
        that metatile is to be opened, cut, pushed or spoken to rather than walked on, and while words stand,
        which are to be read on.
        """
        tile = self._tile(columns)
        step = self._step[self._slots, tile]
        way = _WAYS[step]
        ahead_x = ((tile & 15) + way[:, 0]) * 16 + 8
        ahead_y = ((tile >> 4) + way[:, 1]) * 16 + 8
        y = columns.y + self._profile.terrain.feet
        seen = np.stack(
            [
                (ahead_x - columns.x) / 16,
                (ahead_y - y) / 16,
                1 / (1 + self._left(tile)),
                self._solid[self._slots, tile],
            ],
            axis=1,
        )
        seen[~(_playing(columns) & self._known)] = 0
        seen[columns.text_active, 3] = 1
        return np.clip(seen, -1, 1).astype(np.float32)

    def _follow(self, columns: Columns) -> None:
        """Bring what is kept of each slot's room and aim up to date."""
        done = (columns.milestones[:, None] >> self._bits & 1).astype(np.bool_)
        aims = len(self._bits) - done[:, ::-1].argmax(axis=1)
        aims[~done.any(axis=1)] = 0
        aims[aims == len(self._bits)] = NO_AIM
        place = columns.place
        stale = (aims != self.aim) | (place != self._place)
        stale |= (columns.collisions != self._collisions).any(axis=(1, 2))
        stale &= _playing(columns)
        for slot in np.flatnonzero(stale).tolist():
            self.aim[slot], self._place[slot] = aims[slot], place[slot]
            self._collisions[slot] = columns.collisions[slot]
            self._point(slot, bool(columns.large_room[slot]))

    def _point(self, slot: int, large: bool) -> None:
        """Find the way of one slot to its aim."""
        if self._of[slot] != self._is:
            self._phi[slot], self._of[slot] = np.nan, self._is
        aim, place = int(self.aim[slot]), int(self._place[slot])
        rooms = self._guide.rooms_to(self._guide.aims[aim].place).get(place) if aim != NO_AIM else None
        self._known[slot] = rooms is not None
        if rooms is None:
            return
        self._rooms[slot] = rooms
        walk = self._walk(aim, place, large, self._collisions[slot].tobytes(), self._grounds(slot))
        if walk is None:
            self._distance[slot], self._step[slot], self._solid[slot] = 0, -1, False
        else:
            self._distance[slot], self._step[slot], self._solid[slot] = walk.distance, walk.step, walk.solid

    def _walk_of(self, aim: int, place: int, large: bool, collisions: bytes, ground: Ground) -> Walk | None:
        """The way within room `place` to an aim; None where being there is enough."""
        target = self._guide.aims[aim]
        table = np.frombuffer(collisions, np.uint8).reshape(11, 16)
        costs = cell_costs(table, ground, self._profile.terrain, large)
        way = self._guide.next_way(place, target.place)
        tile = target.tile if way is None else way.tile
        if way is not None and way.side is not None:
            return walk_over(costs, way.side, room_size(large), tile)
        return None if tile is None else walk_to_tile(costs, tile)

    def _weigh(self, columns: Columns, slots: NDArray[np.bool_]) -> None:
        """Take the potential of `slots`, a mask; the others keep theirs."""
        left = self._left(self._tile(columns))
        credit = np.where(self.aim == NO_AIM, self._credit[-1], self._credit[self.aim] - left)
        seen = slots & (self._known | (self.aim == NO_AIM))
        np.copyto(self._phi, credit.astype(np.float32), where=seen)

    def _left(self, tile: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rooms left to the aim, f32 [N]."""
        distance = self._distance[self._slots, tile]
        return self._rooms + distance / (distance + _HALF_WAY)

    def _tile(self, columns: Columns) -> NDArray[np.int64]:
        """The metatile under each hero's feet, i64 [N]."""
        row = np.minimum(columns.y + self._profile.terrain.feet, 175) >> 4
        return (row * 16 + np.minimum(columns.x >> 4, 15)).astype(np.int64)


_WAYS = np.array([*SIDES, (0, 0)], np.int32)  # the last is that of step -1


def aims_in_force(exploration: ExplorationSettings, guide: Guide | None) -> AimsOf:
    """Who says where to go next (AIMS): nobody without a guide that has aims, nor where hints do."""
    if guide is None or not guide.aims or exploration.hint_interval:
        return AimsOf.OFF
    return exploration.aims


def lead() -> NDArray[np.float32]:
    """What the numbers of `Aims.seen_by` add to a policy's logits, f32 [4, actions].

    A policy that has learned nothing thus follows the aim, with much noise, and learns when not to: a
    residual policy. Source: Silver, Allen, Tenenbaum, Kaelbling 2018, "Residual policy learning".
    """
    right, down, done = (np.zeros(ACTION_COUNT, np.float32) for _ in range(3))
    right[[Action.RIGHT, Action.LEFT]] = LEAD, -LEAD
    down[[Action.DOWN, Action.UP]] = LEAD, -LEAD
    done[Action.A] = LEAD
    return np.stack([right, down, np.zeros_like(right), done])


def _legs(guide: Guide) -> list[int]:
    """Rooms of the route to each aim from the one before it, its own included."""
    legs, here = [], guide.aims[0].place
    for aim in guide.aims:
        legs.append(guide.rooms_to(aim.place).get(here, 0) + 1)
        here = aim.place
    return legs


def _playing(columns: Columns) -> NDArray[np.bool_]:
    return columns.has_control & ~columns.transition & ~columns.dying & (columns.menu_open == 0)
