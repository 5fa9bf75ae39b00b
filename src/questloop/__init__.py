"""Questloop: game-playing agents that learn from AI judges, and judges that learn from outcomes."""

__version__ = "0.1.0"
