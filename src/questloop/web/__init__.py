"""The dashboard: a run, its judges and the fleet in a browser, live; only labels and notes are written."""
