"""Every Prometheus metric; its name here is the published one without `questloop_`.

The metrics are in prometheus_client's own registry, with those of the process.
"""

from __future__ import annotations

import time
from threading import Event

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from questloop.errors import UnavailableError
from questloop.settings import TelemetrySettings
from questloop.telemetry.logs import get_logger

log = get_logger(__name__)

_LATENCY_S = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_CLAIM_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5)
_RETURN = (-10, -5, -2, -1, 0, 1, 2, 5, 10, 20, 50, 100)
_ROOMS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 128)


def _counter(name: str, what: str, *labels: str) -> Counter:
    return Counter(f"questloop_{name}", what, labels)


def _gauge(name: str, what: str, *labels: str) -> Gauge:
    return Gauge(f"questloop_{name}", what, labels)


def _histogram(name: str, what: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
    return Histogram(f"questloop_{name}", what, labels, buckets=buckets)


# Playing
env_steps_total = _counter("env_steps_total", "environment steps")
episode_return = _histogram("episode_return", "unshaped return of an episode", _RETURN)
unique_rooms_per_episode = _histogram("unique_rooms_per_episode", "different rooms in an episode", _ROOMS)
milestone_total = _counter("milestone_total", "milestones reached for the first time in an episode", "name")

# The planner; mode: policy, dialog, puzzle
mode_latency_seconds = _histogram("mode_latency_seconds", "time to a decision", _LATENCY_S, "mode")
takeover_total = _counter("takeover_total", "takeovers that ended", "mode", "outcome")

# Judges and the reward model
judge_latency_seconds = _histogram("judge_latency_seconds", "time of a judge's reply", _LATENCY_S, "judge")
judge_invalid_total = _counter("judge_invalid_total", "replies that count for nothing", "judge", "reason")
judge_agreement_alpha = _gauge("judge_agreement_alpha", "Krippendorff's alpha of the last pass")
reward_model_accuracy = _gauge("reward_model_accuracy", "accuracy on held-out preferences")
reward_drift = _gauge("reward_drift", "distance of the last reward model's values from the one before")

# Export
segments_exported_total = _counter("segments_exported_total", "segments stored")
export_queue_depth = _gauge("export_queue_depth", "segments that wait for their upload")

# The fleet
fleet_jobs = _gauge("fleet_jobs", "jobs", "status")
fleet_gpus = _gauge("fleet_gpus", "GPUs: free, claimed, foreign, or a health", "state")
fleet_claim_seconds = _histogram("fleet_claim_seconds", "time of one claim", _CLAIM_S)
fleet_requeue_total = _counter("fleet_requeue_total", "jobs put back in the queue", "reason")
fleet_unknown_messages_total = _counter("fleet_unknown_messages_total", "messages that named no known job")


_ANSWER_S = 0.5
"""What was collected has yet to be written to whoever asked."""


def publish(settings: TelemetrySettings) -> MetricsServer | None:
    """Publish the metrics of a loop where METRICS_PORT says so; a port in use is left alone."""
    if not settings.metrics_port:
        return None
    try:
        return MetricsServer(settings.metrics_port, settings.metrics_address)
    except UnavailableError as error:
        log.warning("metrics are not published", reason=str(error))
        return None


class MetricsServer:
    """Publishes the metrics at http://address:port/metrics until it is closed; port 0 takes a free one."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        try:
            self._server, self._thread = start_http_server(port, address, REGISTRY)
        except OSError as error:
            raise UnavailableError(
                f"metrics: cannot listen on {address}:{port}: {error.strerror}; choose another port"
            ) from None
        self.port: int = self._server.server_port
        self._scraped = _Scraped()
        REGISTRY.register(self._scraped)

    def linger(self, seconds: float) -> bool:
        """Wait until the metrics as they are now were scraped once, `seconds` at most; whether they were.

        A job of one stage may end between two visits of Prometheus, and its last figures with it.
        """
        self._scraped.event.clear()
        scraped = self._scraped.event.wait(seconds)
        if scraped:
            time.sleep(_ANSWER_S)
        return scraped

    def close(self) -> None:
        REGISTRY.unregister(self._scraped)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Scraped(Collector):
    """Collects nothing, and notes that somebody collected."""

    def __init__(self) -> None:
        self.event = Event()

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> list[Metric]:
        self.event.set()
        return []
