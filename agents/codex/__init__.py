"""The Codex runtime: app-server processes, their threads and turns."""
