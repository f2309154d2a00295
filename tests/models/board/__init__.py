"""Tests of the board's words."""
