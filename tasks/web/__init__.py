"""The desk over HTTP: what was run and what waits, answers of a person, and events as they happen."""
