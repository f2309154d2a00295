"""The limits of a turn: the settings' own, and those of single roles and models (`DESK_TURN_LIMITS`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chordesk.agents.pulse import TurnLimits
from chordesk.agents.role_models import RoleModel
from chordesk.agents.roles import GRAPH_ROLES, ROLES
from chordesk.models.errors import SettingError
from chordesk.models.settings import Settings

_SETTING = "turn_limits (DESK_TURN_LIMITS)"
_FORM = "write ROLE=LIMIT:NUMBER or MODEL=LIMIT:NUMBER, with commas between limits and semicolons between entries"
# Names in an entry, and the fields of TurnLimits.
_NAMES: Mapping[str, str] = {
    "turn": "turn_seconds",
    "first_token": "first_token_seconds",
    "silence": "silence_seconds",
    "output": "output_tokens",
}


def general_limits(settings: Settings) -> TurnLimits:
    """Return the limits of turns that no entry of `DESK_TURN_LIMITS` names."""
    return TurnLimits(
        settings.turn_seconds, settings.first_token_seconds, settings.silence_seconds, settings.output_tokens
    )


def limits_of(settings: Settings, role: str, model: RoleModel) -> TurnLimits:
    """Return the limits of a role's turns on a model; an entry of the role goes before one of the model.

    Raises SettingError.
    """
    entries = _entries(settings.turn_limits)
    by_model = entries.get(f"{model.runtime}:{model.model}") or entries.get(model.model) or {}
    return replace(general_limits(settings), **{**by_model, **entries.get(role, {})})


def longest_turn(settings: Settings) -> float:
    """Return the seconds of the longest turn that any role may take. Raises SettingError."""
    own = [float(limits.get("turn_seconds", 0.0)) for limits in _entries(settings.turn_limits).values()]
    return max([settings.turn_seconds, *own])


def check_limits(settings: Settings, models: set[str]) -> None:
    """Raise SettingError for an entry that cannot be read, of a role or model that is not in use, or with a turn that
    is longer than a step."""
    for key in _entries(settings.turn_limits):
        if key not in ROLES and key not in GRAPH_ROLES and key.partition(":")[2] not in models and key not in models:
            known = ", ".join((*ROLES, *GRAPH_ROLES, *sorted(models)))
            raise _wrong(f"{key!r}, which is neither a role nor a model in use", f"roles and models are {known}")
    longest = longest_turn(settings)
    if settings.turn_limits and longest >= settings.step_deadline_seconds:
        raise _wrong(
            f"a turn of {longest:g} s, and a step ends after {settings.step_deadline_seconds:g} s",
            f"set DESK_STEP_DEADLINE_SECONDS above {longest:g}",
        )


def _entries(text: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        key, equals, limits = (part.strip() for part in entry.partition("="))
        if not (key and equals and limits):
            raise _wrong(repr(entry), _FORM)
        if key in found:
            raise _wrong(f"{entry!r}: {key} has an entry already", "give each role and model one entry")
        found[key] = dict(_limit(entry, one) for one in limits.split(","))
    return found


def _limit(entry: str, text: str) -> tuple[str, Any]:
    name, _, number = (part.strip() for part in text.partition(":"))
    if name not in _NAMES:
        raise _wrong(f"{entry!r}: there is no limit {name!r}", f"limits are {', '.join(_NAMES)}")
    try:
        value = int(number) if name == "output" else float(number)
    except ValueError:
        raise _wrong(f"{entry!r}: {number!r} is not a number", _FORM) from None
    if not 0 < value <= 86_400 * (100 if name == "output" else 1):
        raise _wrong(f"{entry!r}: {number} is out of range", "give seconds up to 86400, or tokens, above 0")
    return _NAMES[name], value


def _wrong(what: str, remedy: str) -> SettingError:
    return SettingError(f"{_SETTING} has {what}", remedy=remedy)
