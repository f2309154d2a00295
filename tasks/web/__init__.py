"""The desk over HTTP: runs and their results, requests that wait for a person, and live events."""
