"""The game as an environment: many emulators stepped side by side, and as Gymnasium knows it."""
