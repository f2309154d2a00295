"""The table of the rulebook's policies, and the decorator that enters one for its role."""

from __future__ import annotations

from collections.abc import Callable

from chordesk.agents.rulebook.case import Call, Case, Payload

Policy = Callable[[Case], Call | Payload]

POLICIES: dict[str, Policy] = {}


def policy(role: str) -> Callable[[Policy], Policy]:
    """Return a decorator that makes a function the policy of a role. Raises ValueError when the role has one."""

    def enter(function: Policy) -> Policy:
        if POLICIES.setdefault(role, function) is not function:
            raise ValueError(f"the role {role} has two policies")
        return function

    return enter
