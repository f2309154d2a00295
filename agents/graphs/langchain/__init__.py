"""LangChain chat models on the desk's Codex runtime. Nothing else of the desk imports LangChain."""
