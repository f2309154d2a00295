"""The text of an answer while its JSON still grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.utils.json import parse_partial_json

from chordesk.agents.langchain.reply import ReplyFormat


class Growing:
    """What of a growing answer can be shown already. A structured answer is shown when it is whole: half of a number is
    another number."""

    def __init__(self, form: ReplyFormat, stop: Sequence[str]) -> None:
        self._form, self._stop = form, [one for one in stop if one]
        self._shown = ""

    def piece(self, text: str) -> str:
        """Return what is new of the answer's text. text: the JSON so far."""
        found = self._text(text) if self._form.structured is None else None
        if not isinstance(found, str) or not found.startswith(self._shown):
            return ""
        return self._new(found[: self._safe(found)])

    def rest(self, content: str) -> str:
        """Return what was not shown of the whole text."""
        places = [place for one in self._stop if (place := content.find(one)) >= 0]
        return self._new(content[: min(places)] if places else content)

    def _new(self, text: str) -> str:
        new, self._shown = text[len(self._shown) :], max(self._shown, text, key=len)
        return new

    def _text(self, text: str) -> Any:
        try:
            value = parse_partial_json(text)
        except ValueError:
            return None
        if not isinstance(value, dict):
            return None
        if not self._form.tools:
            return value.get("answer")
        reply = value if self._form.calls_only else value.get("reply")
        return reply.get("content") if isinstance(reply, dict) else None

    def _safe(self, text: str) -> int:
        """Return how much can be shown: nothing that may be the beginning of a stop sequence or of an escape."""
        places = [place for one in self._stop if (place := text.find(one)) >= 0]
        if places:
            return min(places)
        held = max((len(one) for one in self._stop), default=1) - 1
        return max(len(text) - held, len(self._shown))
