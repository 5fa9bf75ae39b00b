"""OpenAI-compatible client and its routes."""
