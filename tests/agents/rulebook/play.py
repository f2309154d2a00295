"""Turns of the rules in this process: a policy is asked until it answers, its tools being functions."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from chordesk.agents.prompting import render
from chordesk.agents.role import Role
from chordesk.agents.roles import ROLES
from chordesk.agents.rulebook import thresholds
from chordesk.agents.rulebook.cases import MAX_CALLS, Call, Case, Output, Payload, case_of, fill
from chordesk.agents.rulebook.policies import POLICIES
from chordesk.agents.rulebook.policies.screeners import _TITLES
from chordesk.agents.turn_answers import RecordedCall
from chordesk.models.answers import output_schema
from chordesk.models.settings import Settings
from chordesk.tools.market.factory import build_market
from chordesk.tools.registry import ToolContext
from chordesk.tools.scoring.market_regime import base_rates, rate_row
from chordesk.tools.toolsets import TurnTools

Tools = Mapping[str, Callable[[Payload], Payload]]

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?%?")
_IDS = re.compile(r"\b(?:[SRCFE]\d[\d.]*|[A-Z.]+\d{6}[CP]\d{8}|\d{4}-\d\d-\d\d)\b")
_RULES = [value for value in vars(thresholds).values() if isinstance(value, thresholds.Rule)]
_TABLES = [thresholds.SIGNAL_RULES, thresholds.FUNDAMENTAL_RULES, thresholds.OPTION_RULES]
# Names of figures, some of which have digits, and counts of headlines, which are the rule's own.
_NAMES = sorted(
    {
        *(rule.title for rule in (*_RULES, *(rule for table in _TABLES for rule in table.values()))),
        *(title for title, _ in _TITLES.values()),
    },
    key=len,
    reverse=True,
)
_COUNTED = re.compile(r"adverse headlines \d+ of \d+")


class Played(NamedTuple):
    """A turn. outputs: what the tools answered."""

    answer: Payload
    calls: list[Call]
    outputs: list[Payload]


def play(key: str, subject: Mapping[str, Any], tools: Tools) -> Played:
    """One turn of a role; the answer is cut to the role's schema and fits it."""
    calls, outputs = list[Call](), list[Output]()
    while True:
        move = POLICIES[key](Case(key, dict(subject), frozenset(tools), outputs))
        if not isinstance(move, Call):
            answer = fill(output_schema(ROLES[key].schema), move)
            ROLES[key].schema.model_validate(answer)
            return Played(answer, calls, [one.payload for one in outputs])
        calls.append(move)
        assert len(calls) <= MAX_CALLS
        outputs.append(Output(move.tool, json.loads(json.dumps(tools[move.tool](move.arguments)))))


class RealDesk:
    """The roles' own tools on a market."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.market = settings, build_market(settings)
        self.context = ToolContext(self.market, self.market.clock, None, settings, "paper", None)

    def turn(self, key: str, subject: Mapping[str, Any]) -> tuple[Played, list[RecordedCall]]:
        """One turn, whose subject comes through the role's prompt, and its calls as a turn records them."""
        rates = base_rates(self.context, [subject["symbol"]] if "symbol" in subject else [])
        rows = [{"symbol": symbol, **rate_row(rate)} for symbol, found in rates.items() for rate in found]
        subject = {**subject, **({"baseRates": rows} if rows else {})}
        role, seen, now = ROLES[key], list[RecordedCall](), self.context.clock.now()
        tools = TurnTools(
            role.tools, self.context, 20.0, lambda sent, got: seen.append(RecordedCall(sent, got, now)), tag="kqz"
        )

        def caller(name: str) -> Callable[[Payload], Payload]:
            return lambda arguments: asyncio.run(tools.call(name, arguments)).payload

        prompt = render(role, dict(subject), self.settings)
        case = case_of(prompt.base_instructions, [{"role": "user", "content": prompt.user}], [])
        assert case.role == key
        return play(key, case.subject, {tool.name: caller(tool.name) for tool in role.tools}), seen

    def report(self, key: str, subject: Mapping[str, Any]) -> tuple[Payload, bool]:
        """One turn's answer as it is stored, completed by the role's code, and whether its tools had data."""
        role: Role = ROLES[key]
        played, seen = self.turn(key, subject)
        assert unsupported(played.answer, played.outputs) == [], (key, played.answer)
        answer = role.schema.model_validate(played.answer).model_dump(mode="json")
        whole = role.complete(answer, dict(subject), seen) if role.complete is not None else answer
        return whole, any(call.answer.has_data for call in seen)


def unsupported(answer: Payload, outputs: Iterable[Payload]) -> list[str]:
    """The numbers in an answer's texts that no tool answer has, at the precision at which they are written. The true
    range alone is told as a share of the close, which no tool gives."""
    outputs = list(outputs)
    rows = [row for one in outputs for row in one.get("technicals", ())]
    ranges = [row["atr14"] / row["close"] for row in rows if row.get("atr14") and row.get("close")]
    known = [*_leaves(outputs, int | float), *ranges]
    stated = " ".join(_leaves(outputs, str))
    texts = [text for name, text in _texts(answer) if name in ("summary", "keyRisks", "thesis")]
    found = []
    for text in (_COUNTED.sub("", text) for text in texts):
        for name in _NAMES:
            text = text.replace(name, "")
        # What a tool wrote as a sentence is quoted as it is, after `Missing:`.
        for number in _NUMBER.findall(_IDS.sub("", text.partition(" Missing: ")[0])):
            places, scale = len(number.rstrip("%").partition(".")[2]), 100 if number.endswith("%") else 1
            value = float(number.rstrip("%"))
            if not any(round(one * scale, places) == value for one in known) and number not in stated:
                found.append(number)
    return found


def _texts(node: Any, name: str = "") -> list[tuple[str, str]]:
    if isinstance(node, dict):
        return [found for key, one in node.items() for found in _texts(one, key)]
    if isinstance(node, list):
        return [found for one in node for found in _texts(one, name)]
    return [(name, node)] if isinstance(node, str) else []


def _leaves(node: Any, kind: Any) -> list[Any]:
    if isinstance(node, dict):
        return [value for one in node.values() for value in _leaves(one, kind)]
    if isinstance(node, list):
        return [value for one in node for value in _leaves(one, kind)]
    return [node] if isinstance(node, kind) and not isinstance(node, bool) else []
