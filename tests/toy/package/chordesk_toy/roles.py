"""The role of the toy, which calls its tool."""

from chordesk.agents.role import validator
from chordesk.tools.model_tools.signals import SIGNALS_GET

ROLES = (validator("toy", SIGNALS_GET, after="quick"),)
