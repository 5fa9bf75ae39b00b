"""The game as a training environment: many emulators stepped side by side, and as Gymnasium environments."""
