"""Settings in variables and in files that `NAME_FILE` names: what they give, and the names that are misspelt."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chordesk.models import features, home
from chordesk.models.errors import SettingError
from chordesk.models.features import OFF
from chordesk.models.files import expanded
from chordesk.models.settings.schema import ALIASES, BROKERS, HOLDINGS_SOURCES, MESSENGERS, SECRETS, Settings

# Secrets in files: `NAME_FILE` is the path of a file with the value of NAME, as containers mount them.
#
# It stands for every setting that is a secret, and for the keys that are read from the environment alone. The live
# switch is neither.

SUFFIX = "_FILE"
_MOST_BYTES = 64 * 1024
_OF_LINES = "DESK_NOTIFY_CHANNELS_FILE"


def secret(environ: Mapping[str, str], name: str) -> str | None:
    """None where neither it nor NAME_FILE is set. Raises SettingError."""
    value, path = environ.get(name), environ.get(name + SUFFIX)
    if value and path:
        raise both_given(name)
    return read_secret(name + SUFFIX, path) if path else value or None


def broker_keys(broker: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return a broker's keys by variable, in the order of its description. Raises SettingError for one that is missing
    or in a file that cannot be used."""
    found = {name: secret(environ, name) for name in BROKERS[broker].credentials}
    if missing := [name for name, value in found.items() if value is None]:
        remedy = f"set it, or the path of a file as {missing[0]}{SUFFIX}, for the trade worker alone; no .env is read"
        needed = " and ".join(missing)
        raise SettingError(f"the broker {broker} needs {needed} in the process environment", remedy=remedy)
    return {name: value for name, value in found.items() if value is not None}


def source_keys(source: str, environ: Mapping[str, str]) -> dict[str, str] | None:
    """Return the variables of a source of holdings, those in files read; None where one of its keys is missing. Raises
    SettingError for a file that cannot be used."""
    described = HOLDINGS_SOURCES[source]
    found = {name: secret(environ, name) for name in described.credentials}
    found |= {name: environ.get(name) or None for name in described.options}
    if any(found[name] is None for name in described.credentials):
        return None
    return {name: value for name, value in found.items() if value is not None}


def both_given(name: str) -> SettingError:
    return SettingError(f"{name} and {name}{SUFFIX} are both set", remedy="set one of them")


def read_secret(variable: str, path: str) -> str:
    """One line but for channels, without spaces around it. Raises SettingError, which names nothing of the content."""
    try:
        with expanded(path).open("rb") as file:
            text = file.read(_MOST_BYTES + 1).decode("utf-8").strip()
    except OSError as error:
        raise _unusable(variable, path, f"cannot be read: {error.strerror}", "let this process read it") from None
    except UnicodeDecodeError:
        raise _unusable(variable, path, "is not text", "write the secret into it, as one line") from None
    if not text:
        raise _unusable(variable, path, "is empty", "write the secret into it, as one line") from None
    if (len(text.splitlines()) > 1 and variable != _OF_LINES) or len(text) > _MOST_BYTES:
        raise _unusable(variable, path, "has more than one line", "leave only the secret in it, as one line")
    return text


def both_forms(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(each for name in names for each in (name, name + SUFFIX))


def unneeded(needed: Iterable[str]) -> tuple[str, ...]:
    """Return the variables of the desk's own secrets that a process with these needs is not to have."""
    return both_forms(f"{PREFIX}{name.upper()}" for name in sorted(OWN_SECRETS.difference(needed)))


def from_files(environ: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    given = {name: secret(environ, name) for name in names if environ.get(name + SUFFIX)}
    return {name: value for name, value in given.items() if value}


def _unusable(variable: str, path: str, why: str, remedy: str) -> SettingError:
    return SettingError(f"{variable}={path}: the file {why}", remedy=f"{remedy}; or unset {variable}")


PREFIX = "DESK_"
# The desk's own secrets that only some of its processes have use for; the others are started without, and forget them.
OWN_SECRETS = frozenset({"provider_key", "api_token", "flower_auth", "message_key", "notify_channels"}) | {
    name for one in MESSENGERS.values() for name in one.settings if name in SECRETS
}
CONFIG_VARIABLE = "DESK_CONFIG"
JSON_VARIABLE = "AUTONOMOUS_CONFIG_JSON"
# The desk's own settings for the processes of a `desk up`, as JSON: one that restarts keeps those of the others.
PINNED_VARIABLE = "DESK_PINNED"
ENVIRONMENT_ONLY = frozenset({"trader_live"})
# Of these the value may be in a file: DESK_NAME_FILE. No setting has such a name.
SECRET_FILES: Mapping[str, str] = {f"{PREFIX}{name.upper()}{SUFFIX}": name for name in sorted(SECRETS)}
_NO_SETTINGS = frozenset({CONFIG_VARIABLE, PINNED_VARIABLE, home.VARIABLE, OFF})
_FIRST_PREFIX = "AUTONOMOUS_"
# Other programs' names may begin so too: of these only what resembles one of ours is an error.
_SHARED_PREFIXES = ("SCREENER_", "TRADER_")
_RESEMBLES = 0.8
_LISTED = "`desk config` shows every setting"
RUNNING = "desk up"

Report = Callable[[SettingError], None]


@dataclass(frozen=True, slots=True)
class Value:
    """One value as a source gave it: the variable or key as the user wrote it, and the source's name."""

    value: Any
    key: str
    source: str


def from_pinned(environ: Mapping[str, str]) -> dict[str, Value]:
    """Settings with which a `desk up` started this process. Raises SettingError for what it did not write."""
    try:
        pinned = dict(json.loads(environ.get(PINNED_VARIABLE) or "{}"))
    except (TypeError, ValueError):
        problem = f"{PINNED_VARIABLE} holds no JSON object"
        raise SettingError(problem, remedy="unset it: `desk up` alone sets it, for its own processes") from None
    known = Settings.model_fields.keys() - ENVIRONMENT_ONLY  # a package may have been uninstalled meanwhile
    return {name: Value(value, name, RUNNING) for name, value in pinned.items() if name in known}


def from_variables(variables: Mapping[str, str | None], source: str, report: Report) -> dict[str, Value]:
    """Return settings by name; DESK_ names win over aliases, and a secret may be in a file. Reports an unknown name,
    since a mistyped limit must not pass unnoticed, and an unusable file."""
    found: dict[str, Value] = {}
    for key, value in variables.items():
        if not value:
            continue
        if key in SECRET_FILES:
            continue
        if _is_unknown(key):
            report(unknown(key, key.removeprefix(PREFIX).lower(), source))
        elif key.startswith(PREFIX) and key not in _NO_SETTINGS:
            found[key.removeprefix(PREFIX).lower()] = Value(value, key, source)
    for key, name in ALIASES.items():
        if value := variables.get(key):
            found.setdefault(name, Value(value, key, source))
    for key, name in SECRET_FILES.items():
        try:
            if path := variables.get(key):
                if name in found:
                    raise both_given(key.removesuffix(SUFFIX))
                found[name] = Value(read_secret(key, path), key, source)
        except SettingError as error:
            report(error)
    return found


def names_setting(key: str) -> bool:
    return key.startswith(PREFIX) or key in ALIASES or key in (JSON_VARIABLE, Settings.LIVE_SWITCH)


def _is_unknown(key: str) -> bool:
    if key in ALIASES or key in _NO_SETTINGS or key in SECRET_FILES or key in (JSON_VARIABLE, Settings.LIVE_SWITCH):
        return False
    if key.startswith(PREFIX):
        name = key.removeprefix(PREFIX).lower()
        return name not in Settings.model_fields or name in ENVIRONMENT_ONLY
    return key.startswith(_FIRST_PREFIX) or (key.startswith(_SHARED_PREFIXES) and bool(_close_to(key)))


def unknown(key: str, name: str, source: str) -> SettingError:
    if (absent := features.absent_setting(name)) is not None:
        return SettingError(f"{key} (from {source}) is not a setting of the desk: {absent[0]}", remedy=absent[1])
    close = _close_to(key)
    remedy = (
        f"write {close[0]}, or leave it out; "
        if close
        else "leave it out, correct its name, or install the package that has it; "
    )
    return SettingError(f"{key} (from {source}) is not a setting of the desk", remedy=f"{remedy}{_LISTED}")


def _close_to(key: str) -> list[str]:
    own = [f"{PREFIX}{name.upper()}" for name in Settings.model_fields if name not in ENVIRONMENT_ONLY]
    known = [*own, *SECRET_FILES, *ALIASES, JSON_VARIABLE, Settings.LIVE_SWITCH]
    return difflib.get_close_matches(key, known, 1, _RESEMBLES)


def live_switch(environ: Mapping[str, str], theirs: Mapping[str, Any], report: Report) -> Value:
    switch = Settings.LIVE_SWITCH
    given = environ.get(switch, "")
    if given not in ("", "0", "1"):
        remedy = f"set {switch}=1 to send orders; 0, or leave it unset, for previews"
        report(SettingError(f"{switch}={given!r} (from environment): must be exactly 1 or 0", remedy=remedy))
    if given:
        return Value(given == "1", switch, "environment")
    if "trader_live" in theirs:
        return Value(theirs["trader_live"] is True, "trader_live", RUNNING)
    return Value(False, switch, "default")
