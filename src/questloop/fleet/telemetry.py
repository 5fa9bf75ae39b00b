"""Prometheus metrics of the fleet."""

from prometheus_client import Counter, Gauge, Histogram

JOBS = Gauge("questloop_fleet_jobs", "Jobs by status.", ["status"])
GPUS = Gauge("questloop_fleet_gpus", "GPUs by state: free, claimed, foreign or a health.", ["state"])
CLAIM_SECONDS = Histogram(
    "questloop_fleet_claim_seconds",
    "Time of one claim.",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5),
)
REQUEUES = Counter("questloop_fleet_requeue", "Jobs queued again, by reason.", ["reason"])
UNKNOWN_JOBS = Counter("questloop_fleet_unknown_job_messages", "Messages that named no known job.")
