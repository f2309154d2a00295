"""The rulebook model: a Responses API on loopback whose answers are fixed rules, and say so."""
