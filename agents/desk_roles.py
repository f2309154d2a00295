"""The lenses and the roles of a desk or a run: what its settings bring, beside what is always there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast, get_args

from chordesk.agents.role import SCREENER, Role
from chordesk.agents.roles import ROLES, TOOLS, required_roles
from chordesk.agents.runtime import ApprovalKind
from chordesk.agents.thesis_pooling import rule_of
from chordesk.models import features
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.settings import KNOWN_LENSES, Settings


def roles_in(settings: Settings) -> Mapping[str, Role]:
    """Return the roles by key. settings: of the run that the roles work for, or of the desk."""
    return ROLES


def role_of(key: str, settings: Settings) -> Role:
    roles = roles_in(settings)
    if (role := roles.get(key)) is None:
        raise UsageError(
            f"no role {key!r}; there are {', '.join(roles)}",
            remedy=f"take another, or {features.remedy_for('graph_roles', key)}",
        )
    return role


def lens_names(settings: Settings) -> tuple[str, ...]:
    return tuple(KNOWN_LENSES)


def lens_role(lens: str) -> str:
    """Return the key of the role that looks through a lens."""
    return f"{SCREENER}{lens}"


def known_lenses(named: Sequence[str], settings: Settings) -> list[str]:
    """Return the named lenses, each once. Raises UsageError for an unknown one."""
    known = lens_names(settings)
    for lens in named:
        if lens not in known:
            remedy = f"choose among {', '.join(known)}, or {features.remedy_for('lenses', lens)}"
            raise UsageError(f"{lens[:40]!r} is not a lens", remedy=remedy)
    return list(dict.fromkeys(named))


def check_roles(settings: Settings) -> None:
    """Raise SettingError for an unknown role or request."""
    required_roles(settings)
    if unknown := [name for name in settings.without_tools if name not in TOOLS]:
        raise SettingError(
            f"without_tools (DESK_WITHOUT_TOOLS) has {', '.join(unknown)}", remedy=f"choose among {', '.join(TOOLS)}"
        )
    rule_of(settings.conclude)
    role_approvals(settings)


def role_approvals(settings: Settings) -> Mapping[str, frozenset[ApprovalKind]]:
    roles, kinds = roles_in(settings), get_args(ApprovalKind)
    found: dict[str, frozenset[ApprovalKind]] = {}
    for pair in filter(None, (part.strip() for part in settings.role_approvals.split(","))):
        role, _, kind = pair.partition(":")
        if role not in roles or kind not in kinds:
            raise SettingError(
                f"role_approvals (DESK_ROLE_APPROVALS) has {pair!r}",
                remedy=f"write ROLE:KIND by comma; roles are {', '.join(roles)}; kinds are {', '.join(kinds)}",
            )
        found[role] = found.get(role, frozenset()) | {cast(ApprovalKind, kind)}
    return found
