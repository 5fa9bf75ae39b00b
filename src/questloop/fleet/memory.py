"""Decides whether a job that ran out of GPU memory is tried on a larger GPU, and says why if not."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from questloop.fleet.models import Claim, Job, Slot
from questloop.fleet.states import Health, SlotKind


def to_ask_for(session: Session, job: Job, attempt: int, detail: str | None) -> tuple[int | None, str | None]:
    """Memory that sends a job that ran out of it to a larger GPU, once, and what there is to say of it."""
    had = session.scalar(
        select(func.min(Slot.memory_mb))
        .join(Claim, Claim.slot_id == Slot.id)
        .where(Claim.attempt_id == attempt, Slot.kind == SlotKind.CUDA)
    )
    if had is None:
        return None, detail
    needed = had if job.shared and job.memory_mb < had else had + 1
    most = session.scalar(
        select(func.max(Slot.memory_mb)).where(Slot.kind == SlotKind.CUDA, Slot.health == Health.HEALTHY)
    )
    if job.memory_before_mb is not None:
        words = f"also on a GPU of {had} MB, to which it was sent after a smaller one"
    elif most is None or most < needed:
        words = f"on a GPU of {had} MB, and the fleet has no larger one"
    elif job.retry_count >= job.max_retries:
        words = f"on a GPU of {had} MB, with no retry left for the larger one of {most} MB"
    else:
        return needed, detail
    said = f"out of GPU memory {words}: lower the batch or the lengths, or train an adapter"
    return None, f"{said} ({detail})" if detail else said
