"""Tests of the tools that agents of other programs call."""
