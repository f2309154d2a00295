"""The key of an endpoint or a server: from a variable, a file or a hidden question. No message repeats any of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chordesk.models.errors import SettingError, UsageError
from chordesk.models.masking import without_secrets
from chordesk.models.settings import Settings
from chordesk.models.settings.variables import read_secret
from chordesk.tasks.cli.setup.choice import KEY, KEY_FILE, URL, Key, key_path
from chordesk.tasks.cli.setup.flags import Flags
from chordesk.tasks.cli.setup.person import Person

_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_KEY = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Before:
    """What holds before the choice. dotenv: the variables of `.env`. settings: those that setup does not choose."""

    dotenv: Mapping[str, str | None]
    settings: Settings

    def of(self, name: str) -> str | None:
        return self.dotenv.get(name) or None


def key_for(flags: Flags, before: Before, person: Person, url: str, *, needed: bool) -> Key:
    """Return the key for a URL. needed: where none is given the person is asked. Raises UsageError, SettingError."""
    if flags.no_key:
        return Key()
    if flags.key_env is not None:
        return Key(_checked(_of_variable(flags.key_env), "--key-env"), key_path(before.settings.home, url), kept=True)
    if flags.key_file is not None:
        path = flags.key_file.expanduser().absolute()
        return Key(_checked(_of_file(path), "--key-file"), path)
    if before.of(URL) in (url, f"{url}/v1") and (found := before.of(KEY) or before.of(KEY_FILE)):
        return Key(found if before.of(KEY) else read_secret(KEY_FILE, found), known=True)
    if not needed:
        return Key()
    if not person.terminal:
        reason = "--key-env, --key-file or --no-key is missing, and there is no terminal to ask at"
        raise UsageError(reason, remedy="add --key-env NAME (of the variable that has the key), or --key-file PATH")
    return typed_key(before, person, url)


def typed_key(before: Before, person: Person, url: str) -> Key:
    """Ask for the key."""
    question = "Key (it is not shown; Enter for none)"
    text = person.secret(question, "--key-env", lambda given: given and _checked(given, "this"))
    return Key(text, key_path(before.settings.home, url), kept=True) if text else Key()


def _of_variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise UsageError(
            "--key-env is no variable's name", remedy="name the variable that has the key, such as OPENAI_API_KEY"
        )
    if not (found := os.environ.get(name, "").strip()):
        raise UsageError(f"--key-env {without_secrets(name)}: no such variable is set", remedy="export it first")
    return found


def _of_file(path: Path) -> str:
    try:
        return read_secret("--key-file", str(path))
    except SettingError as error:
        raise UsageError(without_secrets(str(error.args[0])), remedy="write the key into it, as one line") from None


def _checked(text: str, source: str) -> str:
    """Return a key that a request's header can have. Raises UsageError."""
    if not _KEY.fullmatch(text):
        raise UsageError(f"{source} is no key: it has spaces, or signs that no key has", remedy="copy it again")
    return text
