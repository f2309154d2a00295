"""The liquidity role, which calls the tool of this package and one of the desk's."""

from chordesk.plugins import SIGNALS_GET, validator

ROLES = (validator("liquidity", SIGNALS_GET, after="quick"),)
