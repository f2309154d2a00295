"""Approvals by a person: requests, waiting, answers."""
