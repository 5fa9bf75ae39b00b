"""Machines, GPUs and jobs of the fleet, with logs."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

from fastapi import FastAPI, Path, Query
from fastapi.responses import HTMLResponse, JSONResponse

from questloop.errors import QuestloopError
from questloop.fleet import explain, jobs, machines
from questloop.fleet.database import Database
from questloop.fleet.logs import JobLog
from questloop.fleet.states import JobStatus, SlotKind
from questloop.settings import FleetSettings

SHOWN = 200
JobName = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]


class Draw(Protocol):
    """Renders a template."""

    def __call__(self, template: str, code: int = 200, **context: Any) -> HTMLResponse: ...


def add_fleet(app: FastAPI, db: Database, settings: FleetSettings, draw: Draw) -> None:
    """Add the fleet's pages to the dashboard."""

    @app.get("/fleet", response_class=HTMLResponse)
    def fleet(status: Annotated[JobStatus | None, Query()] = None) -> HTMLResponse:
        found = machines.find(db)
        gpus = [(vm, [slot for slot in vm.slots if slot.kind is SlotKind.CUDA]) for vm in found]
        return draw(
            "fleet.html",
            machines=[(vm, [(slot, machines.slot_state(slot)) for slot in slots]) for vm, slots in gpus],
            jobs=jobs.find(db, status, SHOWN),
            status=status,
            statuses=list(JobStatus),
        )

    @app.get("/fleet/jobs/{job_id}", response_class=HTMLResponse)
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
            reasons=explain.explain(db, job_id, settings),
            log=JobLog(settings.log_dir, job_id).end(),
        )

    @app.get("/fleet/jobs/{job_id}/log")
    def log(job_id: JobName) -> JSONResponse:
        """The end of a job's log, and its status."""
        try:
            found = jobs.get(db, job_id)
        except QuestloopError as error:
            return JSONResponse({"error": str(error)}, 404)
        text = JobLog(settings.log_dir, job_id).end()
        return JSONResponse({"status": found.status, "final": jobs.is_final(found), "log": text})
