"""Chooses the slots and the machine for a job: pure functions over what is free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from questloop.fleet.states import SlotKind
from questloop.settings import Placement


@dataclass(frozen=True)
class Demand:
    """What a job asks for: `gpus` on one machine (0: a CPU slot), each with at least `memory_mb`.

    A shared job takes `memory_mb` of its GPUs and leaves the rest to other shared jobs; any other job has its
    GPUs to itself.
    """

    gpus: int
    memory_mb: int
    shared: bool

    @property
    def slots(self) -> int:
        """Slots needed."""
        return self.gpus or 1


class SlotView(NamedTuple):  # made by the hundred in every claim
    """A healthy slot without foreign use on a machine that takes jobs; `sliced`: a MIG slice of a GPU."""

    id: int
    vm_id: int
    kind: SlotKind
    memory_mb: int
    claimed_mb: int
    claims: int
    exclusive: bool
    sliced: bool = False


@dataclass(frozen=True)
class Choice:
    """Slots of one machine that would serve."""

    vm_id: int
    slot_ids: tuple[int, ...]


def choices(
    demand: Demand,
    slots: Iterable[SlotView],
    policy: Placement,
    reserved: int | None = None,
    preferred: int | None = None,
) -> list[Choice]:
    """Every machine with room for `demand`, best first; the machine `reserved` for another job is left out.

    `preferred` goes first: the machine that holds what an earlier attempt left.

    `pack` takes the machine with the least room that suffices, and of its GPUs the fullest that are shared;
    `spread` takes the one with the most room, and the emptiest GPUs.
    """
    room: dict[int, list[SlotView]] = defaultdict(list)
    for slot in slots:
        if slot.vm_id != reserved and has_room(slot, demand):
            room[slot.vm_id].append(slot)
    pack = policy is Placement.PACK
    found = [(vm_id, fitting) for vm_id, fitting in room.items() if len(fitting) >= demand.slots]
    found.sort(key=lambda item: (item[0] != preferred, len(item[1]) if pack else -len(item[1]), item[0]))
    return [Choice(vm_id, _pick(fitting, demand.slots, pack)) for vm_id, fitting in found]


def has_room(slot: SlotView, demand: Demand) -> bool:
    """Whether `demand` could use this slot now."""
    if not could_serve(slot, demand) or slot.exclusive:
        return False
    if demand.shared and demand.gpus:
        return slot.claimed_mb + demand.memory_mb <= slot.memory_mb
    return slot.claims == 0


def could_serve(slot: SlotView, demand: Demand) -> bool:
    """Whether `demand` could use this slot were it free.

    A process sees one MIG slice at most, whatever it is given, so a job of several GPUs gets whole ones.
    """
    if demand.gpus == 0:
        return slot.kind is SlotKind.CPU
    if demand.gpus > 1 and slot.sliced:
        return False
    return slot.kind is SlotKind.CUDA and slot.memory_mb >= demand.memory_mb


def machine_to_keep_free(demand: Demand, slots: Iterable[SlotView]) -> int | None:
    """The machine to keep free for a large job that has waited too long: the one that lacks least.

    Kept free, its room only grows, so the answer stays the same until the job is placed.
    """
    able: dict[int, int] = defaultdict(int)
    room: dict[int, int] = defaultdict(int)
    for slot in slots:
        if could_serve(slot, demand):
            able[slot.vm_id] += 1
            room[slot.vm_id] += has_room(slot, demand)
    fitting = [vm_id for vm_id, count in able.items() if count >= demand.slots]
    return min(fitting, key=lambda vm_id: (-room[vm_id], vm_id), default=None)


def _pick(fitting: Sequence[SlotView], count: int, pack: bool) -> tuple[int, ...]:
    ordered = sorted(fitting, key=lambda slot: (-slot.claimed_mb if pack else slot.claimed_mb, slot.id))
    return tuple(sorted(slot.id for slot in ordered[:count]))
