"""Rogue calls: what a model asked of tools that its turn does not have, or in words that are not a call."""

from __future__ import annotations

import re
from enum import StrEnum

from chordesk.models.answers import Confidence


class RogueKind(StrEnum):
    UNKNOWN = "unknown"  # no tool of the desk has the name
    FOREIGN = "foreign"  # a tool of the desk that the turn does not have
    MALFORMED = "malformed"  # a tool of the turn, with arguments that are no JSON object


# Most confidence of what rests on a turn with a rogue call: the call is the best sign of an injection there is.
ROGUE_CONFIDENCE = Confidence.LOW

_ACTING = re.compile(
    "orders?|buy|sell|short|submit|cancel|halt|resume|flatten|close|approvals?|approve|deny|trade|mandate|arm|disarm"
    "|transfer|withdraw|shell|exec|execute|command|bash|python|patch|write|delete"
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def plain_name(tool: str) -> str:
    """As a name may be shown and told to other models: letters, digits and a few signs, at most 64."""
    return re.sub(r"[^\w.:/-]+", "_", tool)[:64] or "(no name)"


def acts(tool: str) -> bool:
    return any(_ACTING.fullmatch(word.lower()) for word in _WORD.findall(tool))
