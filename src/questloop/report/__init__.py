"""Showing a run: the table, charts, maps, films and the HTML report, also for the dashboard and terminal."""
