"""Alerts: when a condition fires, what a market and the desk's rows say of it, and what is kept."""
