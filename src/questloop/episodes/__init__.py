"""Segments: schema, recording, selection, export and reading."""
