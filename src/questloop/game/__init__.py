"""Emulator, RAM taps, game profiles, GameState, observation and actions. Knows no reward."""
