"""What was chosen, by flags, variables, files or a person at the terminal, and the variables of `.env` that say it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

import typer

from chordesk.models import urls
from chordesk.models.errors import DeskError, SettingError, UsageError
from chordesk.models.masking import without_secrets
from chordesk.models.settings import Settings
from chordesk.models.settings.variables import read_secret

PROVIDERS: tuple[str, ...] = get_args(Settings.model_fields["provider"].annotation)
SERVED: tuple[str, ...] = ("endpoint", "local")  # providers with a URL, and perhaps a key
PROVIDER, URL, MODEL, MARKET = "DESK_PROVIDER", "DESK_PROVIDER_URL", "DESK_MODEL", "DESK_MARKET"
KEY, KEY_FILE = "DESK_PROVIDER_KEY", "DESK_PROVIDER_KEY_FILE"
OURS = (PROVIDER, URL, KEY, KEY_FILE, MODEL, MARKET)
SECRETS = frozenset({KEY})
KEYS = "keys"  # folder of the home


@dataclass(frozen=True, slots=True)
class Key:
    """A key, or none. text: None without one. path: the file that has it. kept: that is the desk's own, and is written.
    known: `.env` names it already, and that stays as it is."""

    text: str | None = field(default=None, repr=False)
    path: Path | None = None
    kept: bool = False
    known: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """A provider with all that it needs. market: None leaves it as it is."""

    provider: str
    url: str | None = None
    model: str | None = None
    key: Key = Key()
    market: str | None = None

    @property
    def label(self) -> str:
        """The choice as people read it."""
        at = f" at {self.url}" if self.url else ""
        return "the rulebook" if self.provider == "rulebook" else f"{self.model}{at}"

    def variables(self) -> dict[str, str | None]:
        """Return the variables that the choice sets; None takes one out."""
        found: dict[str, str | None] = {PROVIDER: self.provider}
        if self.url is not None:
            found[URL] = self.url
        if self.model is not None:
            found[MODEL] = self.model
        if self.provider in SERVED and not self.key.known:
            found |= {KEY: None, KEY_FILE: str(self.key.path) if self.key.path is not None else None}
        if self.market is not None:
            found[MARKET] = self.market
        return found

    def trial(self, dotenv: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return the variables of a `.env` with this choice in it, before its key has its file."""
        found = {**dotenv, **self.variables()}
        if self.key.text is not None and not self.key.known:
            found |= {KEY: self.key.text, KEY_FILE: None}
        return found


def key_path(home: Path, url: str) -> Path:
    """Return the file of a server's key in the home: each has its own, so that none gets another's."""
    parts = urlsplit(url)
    name = f"{parts.hostname}{f'-{parts.port}' if parts.port else ''}"
    return home / KEYS / f"{''.join(sign if sign.isalnum() or sign in '.-' else '_' for sign in name)}.key"


OPENAI = "https://api.openai.com/v1"
_PATHS = ("/chat/completions", "/responses", "/models")  # of requests, which people copy with the URL


@dataclass(frozen=True, slots=True)
class Flags:
    """None where the command line says nothing. look: servers are asked what they have."""

    provider: str | None = None
    url: str | None = None
    model: str | None = None
    key_env: str | None = None
    key_file: Path | None = None
    no_key: bool = False
    market: str | None = None
    look: bool = True

    def check(self) -> None:
        """Raise UsageError for flags that cannot be, or do not go together."""
        if self.provider is not None and self.provider not in PROVIDERS:
            raise UsageError(f"--provider {self.provider!r} is none", remedy=f"one of: {', '.join(PROVIDERS)}")
        keys = {"--key-env": self.key_env, "--key-file": self.key_file, "--no-key": self.no_key or None}
        given = [name for name, value in keys.items() if value is not None]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} are given at once", remedy="give one of them")
        if self.provider is not None and self.provider not in SERVED:
            for name in [*(["--url"] if self.url is not None else []), *given]:
                reason = f"{name} is given, and the provider {self.provider} has no use for it"
                raise UsageError(reason, remedy=f"leave it out, or give --provider {' or '.join(SERVED)}")
        if self.provider == "rulebook" and self.model is not None:
            raise UsageError("--model is given, and the rulebook is no model", remedy="leave it out")


def base_url(text: str) -> str:
    """Return the base URL in what was typed or copied. Raises UsageError."""
    url = text.strip().rstrip("/")
    for path in _PATHS:
        url = url.removesuffix(path)
    try:
        return urls.require_http(url)
    except ValueError as error:
        shown = urls.masked(without_secrets(text))
        raise UsageError(f"{shown!r} is no base URL: it {error}", remedy=f"such as {OPENAI}") from None


def model_name(text: str) -> str:
    """Return a model's name. Raises UsageError."""
    if len(text.split()) != 1 or not text.isprintable():
        raise UsageError(f"{text!r} is no model's name", remedy="give the name by which its server knows it")
    return text.strip()


Read = Callable[[str], str]  # what was typed, as it is used; raises DeskError for what cannot be


class Person:
    """Asks at the terminal. Without one a question is a UsageError that names its flag."""

    def __init__(self, terminal: bool | None = None) -> None:
        self.terminal = sys.stdin.isatty() and sys.stdout.isatty() if terminal is None else terminal

    def ask(self, question: str, flag: str, default: str | None = None, read: Read = str.strip) -> str:
        """Ask until there is an answer that `read` takes. Raises UsageError without a terminal."""
        self._require(flag)
        found: str = typer.prompt(question, default=default, value_proc=lambda text: _read(text, read))
        return found

    def choose(self, question: str, flag: str, options: Sequence[str], default: int | None = None) -> int:
        """Show the options by number, and return the place of the chosen one."""
        self._require(flag)
        print(question)
        for number, option in enumerate(options, 1):
            print(f"  {number}  {option}")
        shown = str(default + 1) if default is not None else None
        return int(self.ask("Number", flag, shown, lambda text: _number(text, len(options)))) - 1

    def secret(self, question: str, flag: str, read: Read) -> str:
        """Ask without showing what is typed; Enter alone is an empty answer."""
        self._require(flag)
        found: str = typer.prompt(
            question, default="", show_default=False, hide_input=True, value_proc=lambda text: _read(text, read)
        )
        return found

    def agrees(self, question: str, default: bool) -> bool:
        """Ask for yes or no; without a terminal the default is the answer."""
        return typer.confirm(question, default=default) if self.terminal else default

    def _require(self, flag: str) -> None:
        if not self.terminal:
            raise UsageError(f"{flag} is missing, and there is no terminal to ask at", remedy=f"add {flag}")


def _read(text: str, read: Read) -> str:
    try:
        return read(text.strip())
    except DeskError as error:
        raise typer.BadParameter(str(error)) from None


def _number(text: str, most: int) -> str:
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise UsageError(f"{text!r} is none of the numbers", remedy=f"1 to {most}")
    return text


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
