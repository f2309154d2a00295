"""Harvesters: each looks at the questions of a board with one tool, and returns what it found with its source."""
