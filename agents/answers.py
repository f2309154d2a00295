"""Tool calls as a turn recorded them, and the completion of an answer by code."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from chordesk.tools.registry import ToolAnswer


class RecordedCall(NamedTuple):
    """One tool call of the model, with its whole answer."""

    arguments: Mapping[str, Any]
    answer: ToolAnswer
    at: dt.datetime


class AnswerError(ValueError):
    """An answer that does not agree with the tool answers of its turn, as text for the model that repairs it."""


# Takes an answer as its schema dumps it, the turn's subject and the turn's tool calls; returns the answer with what
# code adds. Raises AnswerError.
Completion = Callable[[dict[str, Any], Mapping[str, Any], Sequence[RecordedCall]], dict[str, Any]]

# Takes a turn's subject and its tool calls; returns whether there was anything to judge by.
Evidence = Callable[[Mapping[str, Any], Sequence[RecordedCall]], bool]
