"""Preferences, the Bradley-Terry network, calibration and drift."""
