"""The runtime, model and effort of each role: the settings' own, overridden by `DESK_ROLE_MODELS`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import get_args

from agents.roles import ROLES
from models.errors import SettingError
from models.settings import Effort, Settings

# Names of the runtimes, and the package that each one needs.
RUNTIMES: Mapping[str, str] = {"codex": "codex_cli_bin"}
DEFAULT_RUNTIME = "codex"
EFFORTS: tuple[str, ...] = get_args(Effort)
_MODEL = re.compile(r"[\w./:@+-]{1,200}", re.ASCII)  # a comma in place of the semicolon must not join two entries
_FORM = "write ROLE=RUNTIME:MODEL[:EFFORT], with a semicolon between entries"


@dataclass(frozen=True, slots=True)
class RoleModel:
    """Runtime and model of a role. effort: how much the model reasons; None is the model's own default."""

    runtime: str
    model: str
    effort: str | None = None


def role_models(settings: Settings) -> Mapping[str, RoleModel]:
    """Return the model of every role. Raises SettingError for an entry that cannot be read or served here."""
    default = RoleModel(DEFAULT_RUNTIME, settings.model, settings.effort)
    found = dict.fromkeys(ROLES, default)
    named: set[str] = set()
    for entry in filter(None, (part.strip() for part in settings.role_models.split(";"))):
        role, model = _parse(entry, settings.effort)
        if role in named:
            raise _wrong(f"{entry!r}: the role {role} has an entry already", "give each role one model")
        named.add(role)
        found[role] = model
    return found


def models_of(roles: Iterable[RoleModel], runtime: str) -> tuple[str, ...]:
    """Return the distinct models that roles use in one runtime, in the order of the roles."""
    return tuple(dict.fromkeys(one.model for one in roles if one.runtime == runtime))


def role_labels(settings: Settings) -> Mapping[str, str]:
    """Return the name of each role's model as reports and tables show it."""
    return {role: settings.label_of(one.model) for role, one in role_models(settings).items()}


def _parse(entry: str, effort: str | None) -> tuple[str, RoleModel]:
    role, equals, rest = (part.strip() for part in entry.partition("="))
    runtime, colon, model = (part.strip() for part in rest.partition(":"))
    if not (role and equals and runtime and colon and model):
        raise _wrong(repr(entry), _FORM)
    if role not in ROLES:
        raise _wrong(f"{entry!r}: there is no role {role!r}", f"roles are {', '.join(ROLES)}")
    if runtime not in RUNTIMES:
        raise _wrong(f"{entry!r}: there is no runtime {runtime!r}", f"runtimes are {', '.join(RUNTIMES)}")
    if find_spec(RUNTIMES[runtime]) is None:
        raise _wrong(f"{entry!r}: the runtime {runtime} is not installed", f"install its package {RUNTIMES[runtime]}")
    if ":" in model:
        # The effort is what follows the last colon: a model's name may have colons of its own.
        model, _, effort = (part.strip() for part in model.rpartition(":"))
        if not model or effort not in EFFORTS:
            raise _wrong(f"{entry!r}: there is no effort {effort!r}", f"{_FORM}; efforts are {', '.join(EFFORTS)}")
    if not _MODEL.fullmatch(model):
        raise _wrong(f"{entry!r}: {model!r} is no model's name", _FORM)
    return role, RoleModel(runtime, model, effort)


def _wrong(what: str, remedy: str) -> SettingError:
    return SettingError(f"role_models (DESK_ROLE_MODELS) has {what}", remedy=remedy)
