"""Telemetry: canonical events in a file, metrics and spans. All of it is off unless set."""
