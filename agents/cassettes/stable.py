"""The stable form of what a model is shown, which does not differ from run to run by itself, and the way back.

Ids, moments of a clock and the ids by which an answer of a tool is cited have the number of their first appearance,
folders of this machine have a name, and secrets are left out.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from copy import copy
from pathlib import Path
from typing import Any

import orjson

from chordesk.models.masking import SHORTEST_SECRET, environment_secrets, without_keys, without_secrets
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import BACKTEST
from chordesk.models.settings.schema import SECRETS
from chordesk.models.urls import HIDDEN
from chordesk.tools.registry import ToolAnswer
from chordesk.tools.toolsets import CITE

Doc = dict[str, Any]
# An id of a row, a digest, a UUID, the account of a backtest, a moment with parts of a second, which no market's bar
# has, or the whole text by which another turn's answer of a tool is cited.
_OF_A_RUN = re.compile(
    r"(?<![0-9a-zA-Z])(?:[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9a-zA-Z])"
    rf"|\b{BACKTEST}[0-9a-f]{{12}}(?![0-9a-zA-Z])"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{3,9}(?:Z|[+-]\d\d:\d\d)?"
    r'|(?<=")[a-z]{4}-[a-z]{1,2}(?=\\?")|\A[a-z]{4}-[a-z]{1,2}\Z'
)
_CITED = re.compile(r"\b[a-z]{4}-[a-z]+\b")
_NAMED = re.compile(r"⟦[a-z]+(?: \d+)?⟧")


class StableForm:
    """Of one conversation. masked: its pictures differ from run to run, by the run's mask alone."""

    def __init__(self, settings: Settings, *, masked: bool = False) -> None:
        self._masked = masked
        folders = {"home": settings.home, "data": settings.data, "user": Path.home()}
        places = {str(path): f"⟦{name}⟧" for name, path in folders.items() if path is not None and len(path.parts) > 1}
        self._folders = [
            (re.compile(re.escape(path) + r"(?![\w-])"), name)
            for path, name in sorted(places.items(), key=lambda one: len(one[0]), reverse=True)
        ]
        own = [value.get_secret_value() for name in SECRETS if (value := getattr(settings, name)) is not None]
        secrets = {value for value in (*environment_secrets(os.environ), *own) if len(value) >= SHORTEST_SECRET}
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._names: dict[str, str] = {}
        self._actual = {name: path for path, name in places.items()}
        self._ids = self._cites = 0

    def seen(self, value: Any) -> Any:
        """Return JSON data that the model is shown; new ids get the next names."""
        return _each(value, lambda text: _OF_A_RUN.sub(self._named, self._plain(without_secrets(text))))

    def written(self, value: Any) -> Any:
        """Return JSON data that the model wrote. An id that it was never shown stays as it is."""

        def known(found: re.Match[str]) -> str:
            return self._names.get(found[0], found[0])

        return _each(value, lambda text: _OF_A_RUN.sub(known, self._plain(without_keys(text))))

    def present(self, value: Any) -> Any:
        """Return kept data with the ids and folders of now."""
        return _each(value, lambda text: _NAMED.sub(lambda one: self._actual.get(one[0], one[0]), text))

    def call(self, tool: str, arguments: Any, answer: ToolAnswer) -> Doc:
        asked, payload = self.written(arguments), orjson.loads(answer.text())
        if isinstance(cite := payload.get(CITE), str):
            self._cites += 1
            self._keep(cite, f"⟦cite {self._cites}⟧")
        picture = answer.image if not self._masked else None
        image = hashlib.sha256(picture.data).hexdigest() if picture is not None else None
        return {"tool": tool, "arguments": asked, "answer": self.seen(payload), "image": image}

    def copy(self) -> StableForm:
        other = copy(self)
        other._names, other._actual = {**self._names}, {**self._actual}
        return other

    def _plain(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        for path, name in self._folders:
            text = path.sub(name, text)
        return _CITED.sub(lambda one: self._names.get(one[0], one[0]), text)

    def _named(self, found: re.Match[str]) -> str:
        if (name := self._names.get(found[0])) is None:
            self._ids += 1
            name = self._keep(found[0], f"⟦id {self._ids}⟧")
        return name

    def _keep(self, actual: str, name: str) -> str:
        self._names[actual], self._actual[name] = name, actual
        return name


def _each(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each(item, change) for key, item in value.items()}
    return [_each(item, change) for item in value] if isinstance(value, list | tuple) else value
