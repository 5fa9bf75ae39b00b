"""The local OpenAI-compatible server."""
