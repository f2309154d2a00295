"""A model without sense: valid JSON in each role's schema, by lot; and tool calls, by lot too.

Its tempers are the ways in which weak models fail. Texts have figures of its own making, figures that it copied from a
tool's answer, or none at all. It is asked on the runtime's seam, so that a screen of many candidates takes seconds.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from chordesk.agents.runtime import ConversationSpec, ProcessStatus, TurnResult
from chordesk.models.answers import Usage
from chordesk.models.tables.columns import new_id
from chordesk.tools.registry import ToolSpec

_SUBJECT = re.compile(r"```subject\n(.*?)\n```", re.DOTALL)
_ANSWERS = re.compile(r"```answers\n(.*?)\n```", re.DOTALL)  # to what code asked its tools
_USAGE = Usage(input_tokens=900, output_tokens=80, total_tokens=980)
_INVENTED = ("ZZZZ", "FAKE", "BUYME", "X.Y")
_CLAIMS = (
    "RSI-14 stands at {plain}.",
    "The close of ${money} is {percent}% above the 50-day average.",
    "Volatility of 20 sessions is {percent}%.",
    "It trades at {plain} times earnings.",
    "Momentum is {percent}% over 60 days.",
    "Revenue grew {percent}% to ${money} billion.",
    "Analysts see ${money}, {percent}% higher.",
    "It fell {percent}% on {count} headlines.",
)
_PLAIN = ("close", "rsi 14")  # fields that have one name everywhere
_EMPTY = ("A strong company in a strong market.", "It is a buy.", "The outlook is good.", "Risk is low and rising.")


@dataclass(frozen=True, slots=True)
class Temper:
    """Shares of chances. agrees: takes the first of a schema's choices, as small models do. figures: a text has
    figures; copies: it has a tool's; honest: it has no other, and none of another symbol. calls: it calls a tool, and
    another; strays: on a symbol that it was not asked about; rogue: it calls a tool that its turn does not have."""

    agrees: float = 0.0
    figures: float = 0.7
    copies: float = 0.1
    honest: float = 0.0
    calls: float = 0.7
    strays: float = 0.2
    rogue: float = 0.0


class RandomModel:
    """Implements agents.runtime.Runtime. trades: makes the actions of the trader, by lot and subject; else they are
    made as any other answer. The same seed answers a role on a
    subject in the same way."""

    def __init__(
        self,
        seed: int,
        temper: Temper = Temper(),
        trades: Callable[[random.Random, Mapping[str, Any]], list[dict[str, Any]]] | None = None,
    ) -> None:
        self.seed, self.temper, self.trades = seed, temper, trades
        self.rogue: list[tuple[str, str]] = []  # role and subject of turns with such a call

    async def start(self) -> None:
        return None

    async def close(self, grace_seconds: float) -> None:
        return None

    def status(self) -> list[ProcessStatus]:
        return []

    def interrupt(self, thread_id: str, turn_id: str) -> bool:
        return False

    @asynccontextmanager
    async def conversation(self, spec: ConversationSpec, deadline: float) -> AsyncIterator[_Conversation]:
        yield _Conversation(self, spec)


class _Conversation:
    """Implements agents.runtime.Conversation."""

    def __init__(self, model: RandomModel, spec: ConversationSpec) -> None:
        self.thread_id, self.reason = new_id(), "initial"
        self._model, self._spec = model, spec
        self._subject: Mapping[str, Any] = {}

    def interrupt(self) -> None:
        return None

    async def turn(
        self,
        text: str,
        output_schema: dict[str, Any],
        metadata: Mapping[str, str],
        on_started: Callable[[str], None] | None = None,
        on_limited: Callable[[float | None], None] | None = None,
    ) -> TurnResult:
        model, spec, turn_id = self._model, self._spec, new_id()
        if on_started is not None:
            on_started(turn_id)
        repairs = not (found := _SUBJECT.findall(text))
        subject = self._subject = self._subject if repairs else json.loads(found[-1])
        lot = random.Random(f"{model.seed} {spec.role} {spec.scope.subject}")
        made = _Answer(lot, model.temper, subject, repairs)
        made.seen = [row["answer"] for block in _ANSWERS.findall(text) for row in json.loads(block)]
        specs, most = spec.tools.specs(), len(made.seen) + 4
        while specs and lot.random() < model.temper.calls and len(made.seen) < most:
            tool = lot.choice(specs)
            given = await spec.tools.call(tool.name, made.arguments(tool))
            made.seen.append(json.loads(given.text()))
        if random.Random(f"rogue {model.seed} {spec.role} {spec.scope.subject}").random() < model.temper.rogue:
            model.rogue.append((spec.role, spec.scope.subject))
            await spec.tools.call("orders_submit", {"symbol": spec.scope.subject})
        value = made.of(output_schema, "")
        if spec.role == "trader" and model.trades is not None:
            value["actions"] = model.trades(lot, subject)
        return TurnResult(self.thread_id, turn_id, "completed", json.dumps(value), _USAGE, None, None)


class _Answer:
    """One answer in the making. repairs: it was told what was wrong; seen: what the tools gave."""

    def __init__(self, lot: random.Random, temper: Temper, subject: Mapping[str, Any], repairs: bool = False) -> None:
        self.lot, self.temper, self.subject, self.repairs = lot, temper, subject, repairs
        self.seen: list[Any] = []

    def arguments(self, tool: ToolSpec) -> dict[str, Any]:
        """Return arguments of a tool call; an unlucky one is refused, as a model's own may be."""
        given: dict[str, Any] = self.of(tool.input_schema, "")
        if "symbols" in given:
            given["symbols"] = [self.symbol() for _ in range(self.lot.randint(1, 2))]
        return given

    def of(self, schema: Mapping[str, Any], name: str) -> Any:
        """Return a value that fits a schema."""
        lot = self.lot
        if "pointsFor" in schema.get("properties", {}) and (lot.random() < self.temper.honest or self.repairs):
            return self._thesis()
        if "anyOf" in schema:
            return self.of(lot.choice(schema["anyOf"]), name)
        if "enum" in schema:
            return schema["enum"][0] if lot.random() < self.temper.agrees else lot.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = lot.choice(kind)
        if kind == "object":
            return {key: self.of(one, key) for key, one in schema.get("properties", {}).items()}
        if kind == "array":
            least, most = schema.get("minItems", 0), min(schema.get("maxItems", 4), 6)
            least, most = (20, 60) if name == "candidates" else (least, most)
            return [self.of(schema.get("items", {}), name) for _ in range(lot.randint(least, max(least, most)))]
        if kind in ("number", "integer"):
            low, high = schema.get("minimum", 1), schema.get("maximum", 400)
            return lot.randint(int(low), int(high)) if kind == "integer" else round(lot.uniform(low, high), 2)
        if kind == "boolean":
            return lot.random() < 0.5
        return None if kind == "null" else self._text(schema, name)

    def _thesis(self) -> dict[str, Any]:
        """A thesis that contradicts nothing: a probability with its direction, and no more."""
        listed = ("catalysts", "pointsFor", "pointsAgainst")
        nothing = dict.fromkeys(("move", "moveLow", "moveHigh", "entry", "invalidation", "change"))
        way, chance = self.lot.choice((("up", 0.6), ("up", 0.6), (None, 0.6), ("down", 0.45), ("none", None)))
        if self.lot.random() < self.temper.agrees:
            way, chance = "up", 0.6
        return {**nothing, **{one: [] for one in listed}, "horizon": 10, "direction": way, "probability": chance}

    def symbol(self) -> str:
        """Return a symbol of the subject, or by lot any other."""
        if self.lot.random() < self.temper.strays:
            return self.lot.choice((*_INVENTED, "AAPL", "IBM"))
        return self.lot.choice(symbols_of(self.subject) or _INVENTED)

    def _text(self, schema: Mapping[str, Any], name: str) -> str:
        if name in ("symbol", "symbols") or "pattern" in schema:
            return self.symbol()
        if name in ("contract", "legs"):
            return f"{self.symbol()}101218P00{self.lot.randint(10, 400)}000"
        return self.prose()

    def prose(self) -> str:
        lot, temper = self.lot, self.temper
        if lot.random() >= temper.figures:
            return lot.choice(_EMPTY)
        honest = lot.random() < temper.honest
        said = [] if honest else [self._claim() for _ in range(lot.randint(1, 4))]
        seen = _of_symbol(self.seen, self.subject.get("symbol")) if honest else self.seen
        figures = [one for one in _figures(seen) if not honest or one[0] in _PLAIN]
        if figures and lot.random() < temper.copies:
            said += [f"Its {field} is {value:.2f}." for field, value in lot.sample(figures, min(3, len(figures)))]
        return " ".join(said) or lot.choice(_EMPTY)

    def _claim(self) -> str:
        lot = self.lot
        known = {"plain": f"{lot.uniform(1, 99):.1f}", "percent": f"{lot.uniform(0.1, 60):.1f}"}
        return lot.choice(_CLAIMS).format(**known, money=f"{lot.uniform(2, 400):.2f}", count=lot.randint(2, 9))


def symbols_of(subject: Mapping[str, Any]) -> list[str]:
    """Return the symbols that a turn is asked about: its own, a shard's, or those judged and held."""
    if "symbol" in subject:
        return [subject["symbol"]]
    judged = [one["symbol"] for one in subject.get("verdicts", ())]
    held = [one["symbol"] for one in subject.get("portfolio", {}).get("positions", ())]
    return [*subject.get("symbols", ()), *judged, *held]


def _of_symbol(seen: Any, symbol: str | None) -> Any:
    """Return tools' answers without the rows of other symbols; a subject of many has all of them."""
    if isinstance(seen, dict):
        return {key: _of_symbol(value, symbol) for key, value in seen.items()}
    if isinstance(seen, list):
        rows = [one for one in seen if not isinstance(one, dict) or symbol in (None, one.get("symbol", symbol))]
        return [_of_symbol(one, symbol) for one in rows]
    return seen


def _figures(seen: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of tools' answers with the names of their fields, as a model would say them."""
    if isinstance(seen, dict):
        for key, value in seen.items():
            yield from _figures(value, re.sub(r"([A-Z]|\d+)", r" \1", key).lower())
    elif isinstance(seen, list):
        for value in seen:
            yield from _figures(value, name)
    elif isinstance(seen, float):
        yield name, seen
