"""Kept threads: registry, rollouts, vault, and how one is opened, forked or resumed."""
