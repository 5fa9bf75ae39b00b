"""The benchmark suite of `questloop bench`: rates beside the emulator's limit and other frameworks."""
