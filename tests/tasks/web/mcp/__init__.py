"""Tests of the Model Context Protocol, by the client of its own SDK."""
