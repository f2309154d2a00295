"""The rulebook model: a Responses API on loopback that answers by fixed rules and marks each answer as such."""
