"""Turns of the analysts on the rulebook over HTTP, with the real tools on the replay market and completion by code."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import httpx

from chordesk.agents.answers import RecordedCall
from chordesk.agents.prompting import render
from chordesk.agents.roles import ROLES
from chordesk.agents.subjects import analyst_subject, validator_subject
from chordesk.models.analysis import ANALYSTS, AnalysisRequest
from chordesk.models.answers import output_schema
from chordesk.models.settings import Settings
from chordesk.tools.market.factory import build_market
from chordesk.tools.registry import ToolContext
from chordesk.tools.toolsets import toolset_for
from tests.agents.rulebook.turns import Turn, converse, user

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?%?")
_IDS = re.compile(r"\b(?:[SRCFE]\d[\d.]*|[A-Z.]+\d{6}[CP]\d{8}|\d{4}-\d\d-\d\d)\b")


class Analysed(NamedTuple):
    """A turn, what it recorded, and its completed answer."""

    turn: Turn
    calls: list[RecordedCall]
    answer: dict[str, Any]


class AnalystFloor:
    """A desk on the replay market with modelled chains, whose analysts are the rulebook."""

    def __init__(self, http: httpx.Client, settings: Settings) -> None:
        self.http, self.settings = http, settings
        market = build_market(settings)
        self.context = ToolContext(market, market.clock, None, settings, "paper", None)

    def turn(self, key: str, symbol: str, earlier: Mapping[str, Any] | None = None, **asked: Any) -> Analysed:
        role, seen = ROLES[key], list[RecordedCall]()
        read = {name: value for name, value in (earlier or {}).items() if name in role.reads}
        candidate = validator_subject(symbol, "equity", [], self.settings)
        subject = dict(analyst_subject(candidate, self.settings, AnalysisRequest(**asked), read))
        now = self.context.clock.now()
        tools = toolset_for(role.tools, self.context, 20.0, lambda sent, got: seen.append(RecordedCall(sent, got, now)))

        def caller(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
            return lambda arguments: asyncio.run(tools.call(name, arguments)).payload

        offered = {tool.name: caller(tool.name) for tool in role.tools}
        prompt = render(role, subject, self.settings).user
        turn = converse(self.http, key, [user(prompt)], offered, output_schema(role.schema))
        answer = role.schema.model_validate(turn.answer).model_dump(mode="json")
        assert role.complete is not None
        return Analysed(turn, seen, role.complete(answer, subject, seen))

    def analysis(self, symbol: str, **asked: Any) -> dict[str, Analysed]:
        """The analysts of a strategy one after the other, each with the answers before it."""
        found: dict[str, Analysed] = {}
        for key in ANALYSTS[asked.get("strategy", "csp")]:
            found[key] = self.turn(key, symbol, {name: one.answer for name, one in found.items()}, **asked)
        return found


def unsupported(analysed: Analysed) -> list[str]:
    """The numbers in a turn's texts that no tool answer of it has, at the precision at which they are written."""
    texts = [analysed.turn.answer["summary"], *analysed.turn.answer["keyRisks"]]
    known = [value for call in analysed.calls for value in _values(call.answer.payload)]
    stated = " ".join(value for call in analysed.calls for value in _strings(call.answer.payload))
    found = []
    for text in texts:
        # What a tool wrote as a sentence is quoted as it is, after `Missing:`.
        for number in _NUMBER.findall(_IDS.sub("", text.partition(" Missing: ")[0])):
            places = len(number.rstrip("%").partition(".")[2])
            scale = 100 if number.endswith("%") else 1
            value = float(number.rstrip("%"))
            if not any(round(one * scale, places) == value for one in known) and number not in stated:
                found.append(number)
    return found


def _values(node: Any) -> list[float]:
    if isinstance(node, dict):
        return [value for one in node.values() for value in _values(one)]
    if isinstance(node, list):
        return [value for one in node for value in _values(one)]
    return [float(node)] if isinstance(node, int | float) and not isinstance(node, bool) else []


def _strings(node: Any) -> list[str]:
    if isinstance(node, dict):
        return [value for one in node.values() for value in _strings(one)]
    if isinstance(node, list):
        return [value for one in node for value in _strings(one)]
    return [node] if isinstance(node, str) else []
