"""The dashboard's pages about the fleet: machines with their GPUs, and jobs with their logs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import HTMLResponse, JSONResponse

from questloop.errors import QuestloopError
from questloop.fleet import explain, jobs, machines
from questloop.fleet.commands import summary
from questloop.fleet.database import Database
from questloop.fleet.environment import shown
from questloop.fleet.logs import JobLog
from questloop.fleet.models import Job
from questloop.fleet.states import JobStatus, SlotKind
from questloop.settings import FleetSettings
from questloop.web.site import Templates

SHOWN = 200
JobName = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


def fleet_pages(db: Database, settings: FleetSettings, draw: Templates) -> APIRouter:
    """The routes of the fleet's pages."""
    pages = APIRouter()

    @pages.get("/fleet", response_class=HTMLResponse)
    def fleet(status: Annotated[JobStatus | None, Query()] = None) -> HTMLResponse:
        found = machines.find(db)
        gpus = [(vm, [slot for slot in vm.slots if slot.kind is SlotKind.CUDA]) for vm in found]
        return draw(
            "fleet.html",
            machines=[(vm, [(slot, machines.slot_state(slot)) for slot in slots]) for vm, slots in gpus],
            jobs=jobs.find(db, status, SHOWN),
            status=status,
            statuses=list(JobStatus),
            summary=summary,
        )

    @pages.get("/fleet/jobs/{job_id}", response_class=HTMLResponse)
    def job(job_id: JobName) -> HTMLResponse:
        try:
            found = jobs.get(db, job_id)
        except QuestloopError as error:
            return draw("error.html", 404, message=str(error))
        events, attempts = jobs.history(db, job_id)
        return draw(
            "job.html",
            job=found,
            final=jobs.is_final(found),
            events=events,
            attempts=attempts,
            facts=_facts(found),
            reasons=explain.explain(db, job_id, settings),
            log=JobLog(settings.log_dir, job_id).end(),
        )

    @pages.get("/fleet/jobs/{job_id}/log")
    def log(job_id: JobName) -> JSONResponse:
        """The end of a job's log, and its status."""
        try:
            found = jobs.get(db, job_id)
        except QuestloopError as error:
            return JSONResponse({"error": str(error)}, 404)
        text = JobLog(settings.log_dir, job_id).end()
        return JSONResponse({"status": found.status, "final": jobs.is_final(found), "log": text})

    return pages


def _facts(job: Job) -> list[tuple[str, str]]:
    """What a job runs, on what, and where its output goes; values of its environment are not shown."""
    place = "a CPU slot" if not job.gpus else f"{job.gpus} GPU(s)"
    memory = f", {job.memory_mb} MB on each" if job.memory_mb else ""
    retries = ", also where its own program fails" if job.retry_errors else ""
    facts = {
        "command": summary(job),
        "inputs": ", ".join(f"{name} from {source}" for name, source in (job.inputs or {}).items()),
        "environment": ", ".join(f"{name}={value}" for name, value in shown(job.environment).items()),
        "output": job.output_url or "",
        "needs": place + memory + (", shared" if job.shared else ""),
        "retries": f"{job.retry_count} of {job.max_retries}{retries}",
    }
    return [(name, value) for name, value in facts.items() if value]
