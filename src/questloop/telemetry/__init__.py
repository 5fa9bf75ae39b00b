"""Structured logs, Prometheus metrics and progress display."""
