"""The fields of telemetry that say which turn an event is about."""

from __future__ import annotations

from typing import Any

from chordesk.agents.board.voices import ROLE_PREFIX
from chordesk.agents.roles import mode_of


def role_fields(role: str, subject: str) -> dict[str, Any]:
    """Return mode, role and symbol of a role's subject; the symbol is None for a role with more than one, and for a
    voice, which has a round."""
    mode = mode_of(role)
    about_symbol = subject and mode == "research" and not role.startswith(ROLE_PREFIX)
    return {"mode": mode, "role": role, "symbol": subject if about_symbol else None}
