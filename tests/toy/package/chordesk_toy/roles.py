"""The role of the toy, which calls its tool."""

from chordesk.plugins import SIGNALS_GET, validator

ROLES = (validator("toy", SIGNALS_GET, after="quick"),)
