"""Alerts at work: the pass that looks, what a firing starts, commands, routes and the page."""
