"""The client for OpenAI-compatible model servers: routes, limits, retries and structured replies."""
