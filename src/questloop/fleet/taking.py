"""Writes a claim on PostgreSQL in one statement, and so in one round trip.

All parts of it see the database as it was when it began, so it is sent once the machine's row is locked: from
then on nobody else changes the machine's slots. A part sees nothing of what another writes; that is why the
taken slots are left out of the recount by their ids.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ARRAY, Boolean, Connection, Integer, String, bindparam, text

from questloop.fleet.models import UTCDateTime
from questloop.fleet.placement import Choice, Demand
from questloop.fleet.states import SLOT_FREE, Health, JobStatus, SlotKind

# The words of enums are written into the text, so that the planner sees them.
_TAKE = text(
    f"""
    WITH taken AS (
        UPDATE slots
        SET claims = claims + 1, claimed_mb = claimed_mb + :memory_mb,
            exclusive = NOT :shared, claim_changed_at = :moment
        WHERE id = ANY(:slot_ids) AND :wanted = (
            SELECT count(*) FROM slots
            WHERE id = ANY(:slot_ids) AND health = '{Health.HEALTHY}' AND NOT foreign_use AND NOT exclusive
              AND CASE WHEN :shared THEN claimed_mb + :memory_mb <= memory_mb ELSE claims = 0 END
        )
        RETURNING id
    ), attempt AS (
        INSERT INTO attempts (job_id, vm_id, vm_name, owner, owner_until, claimed_at)
        SELECT :job_id, :vm_id, :vm_name, :owner, :owner_until, :moment WHERE EXISTS (SELECT FROM taken)
        RETURNING id
    ), claim AS (
        INSERT INTO claims (slot_id, attempt_id, memory_mb)
        SELECT taken.id, attempt.id, :memory_mb FROM taken CROSS JOIN attempt
    ), recount AS (
        UPDATE vms SET available_gpus = (
            SELECT count(*) FROM slots
            WHERE vm_id = :vm_id AND kind = '{SlotKind.CUDA}' AND health = '{Health.HEALTHY}'
              AND NOT foreign_use AND claims = 0 AND id <> ALL(:slot_ids)
        )
        FROM attempt WHERE vms.id = :vm_id
    ), move AS (
        UPDATE jobs
        SET status = '{JobStatus.RUNNING}', attempt = attempt.id, started_at = :moment, finished_at = NULL,
            exit_code = NULL, pending_since = NULL
        FROM attempt WHERE jobs.job_id = :job_id AND jobs.status = :status
    ), event AS (
        INSERT INTO job_events (job_id, before, after, attempt, reason, detail)
        SELECT :job_id, change.before, change.after, change.fence, change.reason, change.detail
        FROM attempt CROSS JOIN LATERAL (
            VALUES (1, '{JobStatus.PENDING}', '{JobStatus.QUEUED}', NULL, '{SLOT_FREE}', NULL),
                   (2, '{JobStatus.QUEUED}', '{JobStatus.RUNNING}', attempt.id, NULL, :vm_name)
        ) AS change (step, before, after, fence, reason, detail)
        WHERE change.step = 2 OR :status = '{JobStatus.PENDING}'
        ORDER BY change.step
    )
    SELECT id FROM attempt
    """
).bindparams(
    *(bindparam(name, type_=String) for name in ("job_id", "status", "vm_name", "owner")),
    *(bindparam(name, type_=Integer) for name in ("memory_mb", "vm_id", "wanted")),
    *(bindparam(name, type_=UTCDateTime) for name in ("owner_until", "moment")),
    bindparam("shared", type_=Boolean),
    bindparam("slot_ids", type_=ARRAY(Integer)),
)


def take(
    connection: Connection,
    job_id: str,
    status: JobStatus,
    demand: Demand,
    choice: Choice,
    vm_name: str,
    owner: str,
    owner_until: datetime,
    moment: datetime,
) -> int | None:
    """Claim the chosen slots for a job and return the attempt's fence; job and machine must be locked.

    None, with nothing changed, if any slot is not free.
    """
    return connection.scalar(
        _TAKE,
        {
            "job_id": job_id,
            "status": status.value,
            "memory_mb": demand.memory_mb,
            "shared": demand.shared and demand.gpus > 0,
            "vm_id": choice.vm_id,
            "vm_name": vm_name,
            "slot_ids": list(choice.slot_ids),
            "wanted": len(choice.slot_ids),
            "owner": owner,
            "owner_until": owner_until,
            "moment": moment,
        },
    )
