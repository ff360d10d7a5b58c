"""The real vLLM as engine."""
