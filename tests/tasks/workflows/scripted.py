"""Model with answers given by the test: by role and symbol, after one tool call a turn."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.figures import quoted
from tests.fakes.responses import Call, Reply, Slow, Text, answered

_SUBJECT = re.compile(r"```subject\n(.*?)\n```", re.DOTALL)
USAGE = {"input_tokens": 90, "output_tokens": 10, "total_tokens": 100}
_TOOLS = {
    "screener_fundamental": "company_get",
    "fundamentals": "company_get",
    "catalyst": "sp500_movers",
    "trader": "portfolio_get",
    "chart": "chart_study_get",
    "options": "option_chain_get",
}
# Of theses: of three roles that forecast one CAUTION makes a HOLD, two make a CAUTION.
_WAYS = {"CONFIRMED": "up", "CAUTION": "none", "REJECT": "down"}
_CHANCES = {"CONFIRMED": 0.66, "CAUTION": 0.3, "REJECT": 0.05}
_MOVES = {"CONFIRMED": 0.04, "CAUTION": None, "REJECT": None}
_RECOMMENDED = {
    "chart": {"CONFIRMED": "bullish", "CAUTION": "neutral", "REJECT": "reject"},
    "options": {"CONFIRMED": "select", "REJECT": "reject"},
}
_NULLS = {"chart": ("trendDirection", "trendQuality", "extensionRisk"), "options": ("contract", "premiumQuality")}
_LISTS = {"chart": ("support", "resistance", "confluence"), "options": ("alternatives",)}


@dataclass(slots=True)
class Scripted:
    """hits: symbols by lens; stances by (symbol, role), CONFIRMED unless given; actions of the trader; `instead` is
    what a role replies whatever is asked; `broken` roles answer once with JSON that does not fit; `subjects` keeps
    the last subject of each role. A role of `until` goes on calling its tool while the condition is false. `figures`:
    a report on a symbol's signals quotes two of them, on which a BUY may rest."""

    hits: dict[str, list[str]] = field(default_factory=dict)
    stances: dict[tuple[str, str], str] = field(default_factory=dict)
    actions: list[dict[str, Any]] = field(default_factory=list)
    instead: dict[str, Reply | Callable[[dict[str, Any]], Reply]] = field(default_factory=dict)
    once: dict[str, Reply] = field(default_factory=dict)
    summary: str = "It is steady."
    figures: bool = True
    subjects: dict[str, dict[str, Any]] = field(default_factory=dict)
    until: dict[str, Callable[[], bool]] = field(default_factory=dict)

    def reset(self) -> None:
        fresh = Scripted()
        for name in ("hits", "stances", "actions", "instead", "once", "summary", "figures", "subjects", "until"):
            setattr(self, name, getattr(fresh, name))

    def __call__(self, body: dict[str, Any]) -> Reply:
        texts = [part["text"] for item in body["input"] if item["type"] == "message" for part in item["content"]]
        role = next(text for text in texts if text.startswith("Role: ")).split("\n")[0].removeprefix("Role: ")
        if role in self.instead:
            given = self.instead[role]
            return given(body) if callable(given) else given
        if role in self.once:
            return self.once.pop(role)
        subject = json.loads(_SUBJECT.findall("\n".join(texts))[-1])
        self.subjects[role] = subject
        if not answered(body):
            return self._call(role, subject)
        if role in self.until and not self.until[role]():
            return Slow(0.1, self._call(role, subject))
        answer = self._answer(role, subject)
        if self.figures and "summary" in answer:
            answer["summary"] += quoted(body, subject["symbol"])
        return Text(json.dumps(answer), USAGE)

    def _call(self, role: str, subject: dict[str, Any]) -> Reply:
        tool = _TOOLS.get(role, "signals_get")
        symbols = subject.get("symbols") or [subject.get("symbol")]
        arguments: dict[str, Any] = {"symbols": symbols[:3]}
        if tool == "company_get":
            arguments["parts"] = ["fundamentals"]
        elif tool == "sp500_movers":
            arguments = {"direction": "up", "limit": 5}
        return Call(tool, json.dumps(arguments if tool != "portfolio_get" else {}), USAGE)

    def _answer(self, role: str, subject: dict[str, Any]) -> dict[str, Any]:
        if role == "trader":
            return {"actions": self.actions, "reasoning": self.summary}
        if role.startswith("screener_"):
            named = [name for name in self.hits.get(subject["lens"], []) if name in subject["symbols"]]
            return {"candidates": [self._candidate(name) for name in named]}
        stance = self.stances.get((subject["symbol"], role), "CONFIRMED")
        thesis = {"direction": _WAYS[stance], "probability": _CHANCES[stance], "move": _MOVES[stance]}
        stated = {"confidence": "high", "summary": self.summary, "keyRisks": [], "thesis": thesis}
        if role not in _RECOMMENDED:
            return {"verdict": stance, **stated}
        unknown = dict.fromkeys(_NULLS[role]) | {name: [] for name in _LISTS[role]}
        return {"recommendation": _RECOMMENDED[role][stance], **stated, **unknown}

    def _candidate(self, symbol: str) -> dict[str, Any]:
        return {"symbol": symbol, "instrument": "equity", "confidence": "high", "thesis": self.summary}


def action(symbol: str, kind: str = "open", **changes: Any) -> dict[str, Any]:
    """Return an action of the trader, in its JSON form."""
    trades = kind not in ("hold", "watch")
    made = {
        "symbol": symbol,
        "action": kind,
        "side": "buy" if trades else None,
        "quantity": None,
        "notional": 3000.0 if trades else None,
        "orderType": "market" if trades else None,
        "limitPrice": None,
        "confidence": "medium",
        "reasoning": f"{symbol} is good.",
    }
    return {**made, **changes}
