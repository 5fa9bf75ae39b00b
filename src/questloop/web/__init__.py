"""The dashboard: a run, its judges and the fleet in a browser, live; people can write labels and notes."""
