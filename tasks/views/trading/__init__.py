"""Accounts and orders for people: equity, holdings, checks, lineage and the audit log."""
