"""The roles of the toy: one that calls its tool, and its lens."""

from chordesk.plugins import SIGNALS_GET, screener, validator

ROLES = (validator("toy", SIGNALS_GET, after="quick"), screener("screener_toy"))
