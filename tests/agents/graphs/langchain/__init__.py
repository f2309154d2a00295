"""Tests of the LangChain chat model: through the real app-server, against a model on loopback."""
