"""Structured logs, Prometheus metrics and progress bars."""
