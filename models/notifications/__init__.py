"""Notifications of people: their kinds and states, and the texts of their settings."""
