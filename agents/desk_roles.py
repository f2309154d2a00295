"""The lenses and the roles of a desk or a run: what its settings bring, beside what is always there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, cast, get_args

from chordesk.agents.role import Role, lens_role, screener_of
from chordesk.agents.roles import LENS_TOOLS, ROLES, SCREENING, TOOLS, required_roles
from chordesk.agents.runtime import ApprovalKind
from chordesk.agents.thesis_pooling import rule_of
from chordesk.models import features
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.settings import KNOWN_LENSES, LENSES, UNIFIED, Settings
from chordesk.models.settings.types import own_texts, unread_lenses

if TYPE_CHECKING:
    from chordesk.tools.lenses.files import Lens


def roles_in(settings: Settings) -> Mapping[str, Role]:
    """Return the roles by key. settings: of the run that the roles work for, or of the desk."""
    own = own_texts(settings.own_lenses, settings.home)
    return _with_own(tuple(sorted(own.items()))) if own else ROLES


@lru_cache(maxsize=32)
def _with_own(texts: tuple[tuple[str, str], ...]) -> Mapping[str, Role]:
    # A faulty file keeps nobody from other work: it is refused where its lens is named.
    own = (one for one in _read(texts).values() if not isinstance(one, UsageError))
    return {**ROLES, **{lens_role(one.name): _role(one) for one in own}}


@lru_cache(maxsize=32)
def _read(texts: tuple[tuple[str, str], ...]) -> Mapping[str, Lens | UsageError]:
    from chordesk.tools.lenses.files import read_all  # most desks have no lens of their own

    found = read_all(dict(texts), frozenset(LENS_TOOLS))
    for name in found.keys() & KNOWN_LENSES.keys():
        taken = f"the lens {name}: there is one of this name, of the desk or of a package"
        found[name] = UsageError(taken, remedy=f"give the file another name, such as own-{name}.md")
    return found


def _role(lens: Lens) -> Role:
    return screener_of(lens, LENS_TOOLS, SCREENING)


def own_lenses(settings: Settings) -> Mapping[str, Lens | UsageError]:
    """Return the lenses of a person's own files, or what is wrong with one."""
    own, unread = (find(settings.own_lenses, settings.home) for find in (own_texts, unread_lenses))
    found = _read(tuple(sorted(own.items()))) if own else {}
    remedy = "write a file there, or remove what has its name"
    faults = {name: UsageError(f"the lens {name} cannot be read: {why}", remedy=remedy) for name, why in unread.items()}
    return {**found, **faults}


def lens_of(name: str, settings: Settings) -> Lens | None:
    """Return a lens that is a file; None for one of a package that is a role alone. Raises UsageError."""
    found = own_lenses(settings).get(name)
    if isinstance(found, UsageError) and name not in KNOWN_LENSES:
        raise found
    return role_of(lens_role(name), settings).lens


def kept_lenses(names: Iterable[str], settings: Settings) -> str:
    """Return the texts of a person's own among some lenses, as `own_lenses` of a run that keeps them."""
    own = own_texts(settings.own_lenses, settings.home)
    kept = {name: own[name] for name in sorted(set(names)) if name in own and name not in KNOWN_LENSES}
    return json.dumps(kept, sort_keys=True) if kept else ""


def is_own(name: str) -> bool:
    """Return whether a lens is a person's own, of which each text is a version."""
    return name not in KNOWN_LENSES


def is_of_the_desk(name: str) -> bool:
    """Return whether a lens is one of the desk's five, which have policies of the rulebook of their own."""
    return name in (*LENSES, UNIFIED)


def role_of(key: str, settings: Settings) -> Role:
    roles = roles_in(settings)
    if (role := roles.get(key)) is None:
        raise UsageError(
            f"no role {key!r}; there are {', '.join(roles)}",
            remedy=f"take another, or {features.remedy_for('graph_roles', key)}",
        )
    return role


def lens_names(settings: Settings) -> tuple[str, ...]:
    """Return the names of lenses that a screen may take, a person's own last; none of a faulty file."""
    return (*KNOWN_LENSES, *(name for name, one in own_lenses(settings).items() if not isinstance(one, UsageError)))


def known_lenses(named: Sequence[str], settings: Settings) -> list[str]:
    """Return the named lenses, each once. Raises UsageError for an unknown one."""
    known, own = lens_names(settings), own_lenses(settings)
    for lens in named:
        if lens not in known:
            if isinstance(faulty := own.get(lens), UsageError):
                raise faulty
            remedy = f"choose among {', '.join(known)}, or {features.remedy_for('lenses', lens)}"
            raise UsageError(f"{lens[:40]!r} is not a lens", remedy=remedy)
    return list(dict.fromkeys(named))


def check_roles(settings: Settings) -> None:
    """Raise SettingError for an unknown role or request, and for a faulty lens that a setting names."""
    required_roles(settings)
    if unknown := [name for name in settings.without_tools if name not in TOOLS]:
        raise SettingError(
            f"without_tools (DESK_WITHOUT_TOOLS) has {', '.join(unknown)}", remedy=f"choose among {', '.join(TOOLS)}"
        )
    rule_of(settings.conclude)
    for one in own_lenses(settings).values() if settings.own_lenses else ():
        if isinstance(one, UsageError):
            raise SettingError(f"own_lenses (DESK_OWN_LENSES): {one.args[0]}", remedy=one.remedy)
    try:
        known_lenses(settings.lenses, settings)
    except UsageError as error:
        raise SettingError(f"lenses (DESK_LENSES): {error.args[0]}", remedy=error.remedy) from None
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
