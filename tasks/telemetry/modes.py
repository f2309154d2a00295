"""The fields of telemetry that say which turn an event is about."""

from __future__ import annotations

from typing import Any

from agents.roles import mode_of


def role_fields(role: str, subject: str) -> dict[str, Any]:
    """Return mode, role and symbol of a role's subject; the symbol is None for a role with more than one."""
    mode = mode_of(role)
    return {"mode": mode, "role": role, "symbol": subject if subject and mode == "research" else None}
