"""The sources of settings: read each one, merge them by strength, record where each value came from, explain errors."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic import ValidationError

from chordesk.models import features
from chordesk.models.errors import SettingError
from chordesk.models.features import OFF
from chordesk.models.files import expanded
from chordesk.models.settings import ALIASES, LEAVING, Settings, running_desk
from chordesk.models.settings.running_desk import PUBLISHED, counts, snapshot_value
from chordesk.models.settings.schema import SECRETS
from chordesk.models.settings.variables import (
    CONFIG_VARIABLE,
    ENVIRONMENT_ONLY,
    JSON_VARIABLE,
    PREFIX,
    RUNNING,
    Report,
    Value,
    from_pinned,
    from_variables,
    live_switch,
    unknown,
)
from chordesk.models.states import MODES
from chordesk.models.urls import HIDDEN, masked

# Limits of kept threads in a table of their mode, and their names in an entry of thread_limits.
_LIMITS = {"max_thread_age_hours": "hours", "max_thread_turns": "turns", "thread_tokens": "tokens"}


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings of a process."""

    settings: Settings
    origins: Mapping[str, Value]  # where each came from; fields that are not there have their default
    warnings: tuple[str, ...] = ()
    # what the running `desk up` of the home has written, empty when none runs
    published: Mapping[str, Any] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        """Whether these are the settings of a running desk. One that starts, or ends, has none to show."""
        return running_desk.has_settings(self.published)


def load_settings(
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    *,
    agree: bool = True,
    but: Collection[str] = (),
    own_switch: bool = False,
) -> Settings:
    """Return the settings of this process. Raises SettingError naming the variable, its value and what is allowed."""
    return load(environ, cwd, agree=agree, but=but, own_switch=own_switch).settings


def load_for_halt(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> tuple[Loaded, list[str]]:
    """For the kill switch, which nothing may hold up: settings as far as they can be read, and the problems."""
    problems: list[str] = []
    return load(environ, cwd, agree=False, report=lambda error: problems.append(str(error.args[0]))), problems


def _raised(error: SettingError) -> None:
    raise error


def load(
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    *,
    join: bool = True,
    agree: bool = True,
    but: Collection[str] = (),
    own_switch: bool = False,
    dotenv: Mapping[str, str | None] | None = None,
    report: Report = _raised,
) -> Loaded:
    """Return the settings and where each came from.

    join: take unset values from the `desk up` that runs on this home; a value that contradicts the desk's own is a
    SettingError. `desk up` itself joins none. agree=False: such a value is used. but: settings that may differ all the
    same. own_switch: the live switch is this process's environment's alone, as what sends orders needs it. dotenv:
    variables in place of those of the `.env`. report: called with each problem; when it returns, what is wrong is left
    out.
    """
    environ = os.environ if environ is None else environ
    cwd = cwd or Path.cwd()
    dotenv = _dotenv(cwd) if dotenv is None else dotenv
    origins = _read(lambda: from_pinned(environ), report)
    _under(origins, from_variables(environ, "environment", report))
    _under(origins, from_variables(dotenv, ".env", report))
    if dotenv.get(OFF) and not environ.get(OFF):
        remedy = "set it in the environment of each of the desk's processes"
        report(SettingError(f"{OFF} (from .env) has no effect there", remedy=remedy))
    home = _home(origins)
    for read in (
        lambda: _from_toml(environ.get(CONFIG_VARIABLE) or dotenv.get(CONFIG_VARIABLE), cwd, home),
        lambda: _from_json(environ.get(JSON_VARIABLE) or dotenv.get(JSON_VARIABLE)),
    ):
        _under(origins, _read(read, report))
    theirs = _read(lambda: running_desk.read(_home(origins)), report) if join else {}
    origins["trader_live"] = live_switch(environ, {} if own_switch else theirs, report)
    if agree:
        _agree({name: value for name, value in origins.items() if name not in but}, theirs)
    of_settings = {name: value for name, value in theirs.items() if name not in running_desk.BESIDE}
    _under(origins, {name: Value(value, name, RUNNING) for name, value in of_settings.items()})
    settings = _build(origins, report)
    if agree:
        _agree_on_places(settings, origins, theirs)
        _agree_on_features(theirs)
    return Loaded(settings, origins, (*_not_read(environ, dotenv, cwd), *_leaving(origins)), theirs)


def _read(read: Callable[[], dict[str, Any]], report: Report) -> dict[str, Any]:
    try:
        return read()
    except SettingError as error:
        report(error)
        return {}


def _not_read(environ: Mapping[str, str], dotenv: Mapping[str, str | None], cwd: Path) -> tuple[str, ...]:
    """Return a warning for a live switch in the .env that the environment does not have: it has no effect there."""
    switch = Settings.LIVE_SWITCH
    if switch not in dotenv or dotenv[switch] == environ.get(switch):
        return ()
    state = "on" if environ.get(switch) == "1" else "off"
    return (f"{switch} in {_upward(cwd, '.env')} is not read; it counts in the environment of `desk up`: here {state}",)


def _leaving(origins: Mapping[str, Value]) -> Iterator[str]:
    for name, instead in LEAVING.items():
        if name in origins and origins[name].source != RUNNING:
            found = origins[name]
            yield f"{found.key} (from {found.source}) goes with the next minor version: {instead}"


def _agree(origins: Mapping[str, Value], theirs: Mapping[str, Any]) -> None:
    wrong = []
    for name, found in origins.items():
        if name not in theirs or name not in PUBLISHED or found.source in (RUNNING, "default"):
            continue
        try:
            ours = snapshot_value(name, found.value)
        except ValidationError:
            continue  # it is named when the settings are built
        if ours != theirs[name] and counts(name, theirs):
            wrong.append(f"{found.key}={ours!r} (from {found.source}), but its workers have {name}={theirs[name]!r}")
    if wrong:
        raise SettingError(
            f"a `desk up` runs on this home with other settings: {'; '.join(wrong)}",
            remedy="leave these unset here, or stop `desk up` and start it again with them",
        )


def _agree_on_places(settings: Settings, origins: Mapping[str, Value], theirs: Mapping[str, Any]) -> None:
    """Raise SettingError for another database or Redis than the running desk's: runs would be opened where no worker
    looks."""
    here = running_desk.places(settings)
    for name, place in theirs.get(running_desk.PLACES, {}).items():
        if name in here and here[name] != place:
            variable, found = f"{PREFIX}{name.upper()}", origins.get(name)
            source = f"from {found.source}" if found else "default"
            raise SettingError(
                f"a `desk up` runs on this home with {name}={place!r}, and here it is {here[name]!r} ({source})",
                remedy=f"set {variable} to the desk's, or leave it unset where that has no login",
            )


def _agree_on_features(theirs: Mapping[str, Any]) -> None:
    """Raise SettingError for other features than the running desk's: a run of one that is off there waits for ever."""
    there, here = theirs.get(running_desk.FEATURES_OFF), sorted(features.off())
    if there is not None and there != here:
        theirs_off = ",".join(map(str, there)) if isinstance(there, list) else str(there)
        raise SettingError(
            f"a `desk up` runs on this home with {OFF}={theirs_off!r}, and here it is {','.join(here)!r}",
            remedy=f"set {OFF} as the desk has it, or stop `desk up` and start it again with yours",
        )


def _build(origins: dict[str, Value], report: Report) -> Settings:
    """Return the settings of these values; a value that is reported is left out, from `origins` too."""
    while True:
        try:
            return Settings(**{name: found.value for name, found in origins.items()})
        except ValidationError as error:
            wrong = {name for item in error.errors() for name in _named(item)} & origins.keys()
            report(_switched_off(wrong) or SettingError("; ".join(_explain(item, origins) for item in error.errors())))
            for name in wrong or set(origins):
                del origins[name]


def _switched_off(names: Collection[str]) -> SettingError | None:
    """Return the error of a setting whose feature is off: that comes before what is wrong with its value."""
    try:
        features.require_on(names)
    except SettingError as error:
        return error
    return None


def _named(item: Any) -> tuple[str, ...]:
    return (str(item["loc"][0]),) if item["loc"] else tuple(item.get("ctx", {}).get("settings", ()))


def _explain(item: Any, origins: Mapping[str, Value]) -> str:
    name = str(item["loc"][0]) if item["loc"] else ""
    message = str(item["msg"]).removeprefix("Value error, ")
    if not name:
        several = item.get("ctx", {}).get("settings", ())
        return ": ".join(part for part in (message, ", ".join(_given(each, origins) for each in several)) if part)
    found = origins.get(name)
    key, source = (found.key, found.source) if found else (PREFIX + name.upper(), "default")
    return f"{key}={_shown(name, item.get('input'))} (from {source}): {message}"


def _given(name: str, origins: Mapping[str, Value]) -> str:
    found = origins.get(name)
    if found is not None:
        return f"{found.key}={_shown(name, found.value)} (from {found.source})"
    default = Settings.model_fields[name].default
    return f"{PREFIX}{name.upper()}" + (" is not set" if default is None else f"={default!r} (default)")


def _shown(name: str, given: Any) -> str:
    """Return a value as an error may repeat it: no secret, and no part of a URL that may be one."""
    if name in SECRETS:
        return HIDDEN
    if name.endswith("_url"):
        # What is not a URL at all may be a key that was pasted into the wrong variable.
        return repr(masked(given)) if isinstance(given, str) and "://" in given else HIDDEN
    return repr(given)


def _under(origins: dict[str, Value], weaker: Mapping[str, Value]) -> None:
    for name, value in weaker.items():
        origins.setdefault(name, value)


def _home(origins: Mapping[str, Value]) -> Path:
    if "home" in origins:
        return expanded(origins["home"].value)
    return Path(Settings.model_fields["home"].get_default(call_default_factory=True))


def _upward(cwd: Path, name: str) -> Path | None:
    for folder in (cwd, *cwd.parents):
        if (folder / name).is_file():
            return folder / name
    return None


def _dotenv(cwd: Path) -> Mapping[str, str | None]:
    path = _upward(cwd, ".env")
    return dotenv_values(path, interpolate=False) if path else {}


def _from_toml(named: str | None, cwd: Path, home: Path) -> dict[str, Value]:
    path = expanded(named) if named else (_upward(cwd, "desk.toml") or home / "desk.toml")
    if not path.is_file():
        if named:
            raise SettingError(f"{CONFIG_VARIABLE}={named!r}: no such file")
        return {}
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: not TOML: {error}") from None
    return _from_table(table, str(path))


def _from_json(text: str | None) -> dict[str, Value]:
    if not text:
        return {}
    try:
        raw = text if text.lstrip().startswith("{") else expanded(text).read_text(encoding="utf-8")
        table = json.loads(raw)
    except (OSError, ValueError) as error:
        # The message does not repeat inline JSON: there may be a key in it.
        raise SettingError(f"{JSON_VARIABLE}: neither a JSON object nor the path of a JSON file: {error}") from None
    if not isinstance(table, dict):
        raise SettingError(f"{JSON_VARIABLE}: must be a JSON object")
    return _from_table(table, JSON_VARIABLE)


def _from_table(table: Mapping[str, Any], source: str) -> dict[str, Value]:
    found: dict[str, Value] = {}
    limits = []
    for key, value in table.items():
        if key in MODES and isinstance(value, Mapping):
            limits += [_thread_limits(key, value, source)] if value else []
            continue
        name = ALIASES.get(key, key.removeprefix(PREFIX).lower() if key.startswith(PREFIX) else _snake(key))
        if name in ENVIRONMENT_ONLY or key == Settings.LIVE_SWITCH:
            raise SettingError(f"{key} in {source}: the live switch is read from the process environment alone")
        if name not in Settings.model_fields:
            raise unknown(key, name, source)
        found[name] = Value(value, key, source)
    if limits:
        given = [found["thread_limits"].value] if "thread_limits" in found else []
        found["thread_limits"] = Value(";".join([*given, *limits]), "thread_limits", source)
    return found


def _thread_limits(mode: str, table: Mapping[str, Any], source: str) -> str:
    for key in table:
        if _snake(key) not in _LIMITS:
            raise SettingError(f"{mode}.{key} (from {source}) is not a setting of the desk")
    return f"{mode}={','.join(f'{_LIMITS[_snake(key)]}:{value}' for key, value in table.items())}"


def _snake(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
