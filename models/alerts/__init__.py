"""Alerts and watch lists: their tables and settings."""
