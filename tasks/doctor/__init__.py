"""The checks before a start: one function a check, each with a status and a remedy."""
