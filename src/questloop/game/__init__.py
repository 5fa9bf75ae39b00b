"""The game itself: emulator, memory addresses, game profiles, decoded state, observation and actions."""
