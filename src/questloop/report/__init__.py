"""Showing a run: its table, charts, maps, films and the HTML report, for pages and the terminal."""
