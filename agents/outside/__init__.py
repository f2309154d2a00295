"""The desk's tools for agents that are not its own."""
