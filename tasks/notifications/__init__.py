"""Notifications of people over apprise: one process takes the notices of the database and sends them to channels."""
