"""What the desk tells of itself to the outside: canonical events in a file, metrics, spans. All is off unless set."""
