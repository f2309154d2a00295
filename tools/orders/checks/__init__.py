"""Checks before an order is sent: evaluation by the risk rules, preview and mandate."""
