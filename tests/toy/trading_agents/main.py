"""A program that uses it."""

from __future__ import annotations

import sys

from tradingagents.graph import play

print("decision", play(sys.argv[1]))
