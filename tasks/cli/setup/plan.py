"""What setup would write, how it is shown, and what a person should know of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from chordesk.models.settings.running_desk import is_up
from chordesk.models.settings.sources import Loaded, load
from chordesk.models.urls import HIDDEN, is_loopback, masked
from chordesk.tasks.cli.output import inert, relative
from chordesk.tasks.cli.setup.choice import KEY, KEY_FILE, OURS, SECRETS, SERVED, URL, Choice
from chordesk.tasks.services import env_file
from chordesk.tasks.services.env_file import Change


@dataclass(frozen=True, slots=True)
class Plan:
    """A choice, and the file's text before and after it. loaded: the settings of a desk that reads the file, whatever
    this shell sets."""

    path: Path
    before: str
    after: str
    choice: Choice
    loaded: Loaded

    @property
    def changes(self) -> list[Change]:
        return env_file.changes(self.before, self.after)

    def write(self) -> None:
        """Write the key into its file, then the file. Raises UsageError."""
        key = self.choice.key
        if key.kept and key.path is not None and key.text is not None:
            env_file.write_secret(key.path, key.text)
        if self.changes:
            env_file.write(self.path, self.after)


def planned(path: Path, before: str, choice: Choice) -> Plan:
    """Return the plan of a choice. Raises UsageError, and SettingError where other settings contradict it."""
    after = env_file.changed(before, choice.variables())
    return Plan(path, before, after, choice, settings_of(choice.trial(env_file.values(after))))


def settings_of(dotenv: Mapping[str, str | None]) -> Loaded:
    """Return the settings of a desk that has these variables in its `.env`, without what this shell sets of those that
    setup chooses. Raises SettingError."""
    environ = {name: value for name, value in os.environ.items() if name not in OURS}
    return load(environ, join=False, dotenv=dotenv)


def changes_shown(plan: Plan) -> list[str]:
    """Return what changes in the file, line by line, without secrets."""
    lines = [f"{relative(plan.path)}{'' if plan.before else ' (new)'}:"]
    for each in plan.changes:
        lines += [f"  - {each.name}={_shown(each.name, each.before)}"] if each.before else []
        lines += [f"  + {each.name}={_shown(each.name, each.after)}"] if each.after else []
    rest = [name for name in env_file.values(plan.before) if name not in {each.name for each in plan.changes}]
    return [*lines, f"  {', '.join(rest)}: as before"] if rest else lines


def _shown(name: str, value: str | None) -> str:
    if name in SECRETS:
        return HIDDEN
    return inert(masked(value or "") if name == URL else value or "")


def to_know(plan: Plan, cwd: Path) -> Iterator[str]:
    """Yield warnings about what else decides the settings of a desk."""
    found, choice = env_file.values(plan.after), plan.choice
    for name in OURS:
        given = os.environ.get(name)
        if not given or given == found.get(name) or (name == KEY and given == choice.key.text):
            continue
        if name not in (KEY, KEY_FILE) or choice.provider in SERVED:
            shown = f"{name}={_shown(name, given)}"
            yield f"{shown} is set in this shell and goes before {plan.path.name}: `unset {name}`"
    origin = plan.loaded.origins.get("provider_key")
    if choice.provider in SERVED and choice.key.text is None and origin is not None:
        yield f"{choice.url} is sent the key of {origin.key} (from {origin.source})"
    if choice.provider == "local" and choice.key.text and not is_loopback(urlsplit(choice.url or "").hostname or ""):
        yield f"{masked(choice.url or '')} counts as local, without a price: what it charges is in no figure"
    own = choice.key.path if not choice.key.kept else None
    if own is not None and own.stat().st_mode & 0o077:
        yield f"others may read {own}: `chmod 600 {own}`"
    if plan.path.name != env_file.NAME:
        yield f"no desk reads {plan.path} by itself: it reads {env_file.NAME}, and its environment"
    elif env_file.find(cwd) != plan.path:
        yield f"a desk reads {plan.path} where it is started in {plan.path.parent} or below it"
    if is_up(home := plan.loaded.settings.home):
        yield f"a `desk up` runs on {home} and keeps the settings that it has: stop it and start it again"
