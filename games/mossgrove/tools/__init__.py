"""Converters from readable art, maps and text to C."""
