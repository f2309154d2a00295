"""The LiteLLM runtime: turns by calls of a model's own API, in this process. Keeps no threads."""
