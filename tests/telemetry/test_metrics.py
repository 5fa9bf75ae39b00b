import re
import threading
import time
import urllib.request
from pathlib import Path

from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from questloop.settings import TelemetrySettings
from questloop.telemetry import metrics

PUBLISHED = {
    "env_steps_total": (),
    "episode_return": (),
    "unique_rooms_per_episode": (),
    "milestone_total": ("name",),
    "mode_latency_seconds": ("mode",),
    "takeover_total": ("mode", "outcome"),
    "judge_latency_seconds": ("judge",),
    "judge_invalid_total": ("judge", "reason"),
    "judge_agreement_alpha": (),
    "reward_model_accuracy": (),
    "reward_drift": (),
    "segments_exported_total": (),
    "export_queue_depth": (),
    "fleet_jobs": ("status",),
    "fleet_gpus": ("state",),
    "fleet_claim_seconds": (),
    "fleet_requeue_total": ("reason",),
    "fleet_unknown_messages_total": (),
}


def test_names_and_labels_are_the_published_ones():
    for name, labels in PUBLISHED.items():
        assert getattr(metrics, name)._labelnames == labels
    collected = {family.name for family in REGISTRY.collect() if family.name.startswith("questloop_")}
    assert collected == {f"questloop_{name}".removesuffix("_total") for name in PUBLISHED}


def test_they_are_served_on_loopback():
    metrics.segments_exported_total.inc()
    server = metrics.MetricsServer(0)
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
        text = answer.read().decode()
    server.close()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["questloop_segments_exported"].samples[0].value >= 1


def test_the_reference_lists_them_all():
    page = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
    rows = [line.split("|") for line in page.read_text().splitlines() if line.startswith("| `")]
    listed = {row[1].strip(" `"): tuple(re.findall("`(.*?)`", row[2])) for row in rows}
    assert listed == PUBLISHED


def test_a_loop_publishes_where_its_settings_say():
    assert metrics.publish(TelemetrySettings()) is None
    first = metrics.MetricsServer(0)
    assert metrics.publish(TelemetrySettings(metrics_port=first.port)) is None  # left to the other stage
    first.close()


def test_an_ended_stage_waits_for_one_scrape_and_no_longer_than_it_may():
    server = metrics.MetricsServer(0)
    try:
        assert not server.linger(0)
        assert not server.linger(0.05)
        visitor = threading.Timer(0.2, urllib.request.urlopen, [f"http://127.0.0.1:{server.port}/metrics"])
        visitor.start()
        began = time.monotonic()
        assert server.linger(30)
        assert time.monotonic() - began < 10
        visitor.join()
    finally:
        server.close()
