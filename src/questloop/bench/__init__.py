"""`questloop bench`: throughput beside the emulator's limit and beside stock RLlib and Stable-Baselines3."""
