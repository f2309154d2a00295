"""The clerk's policy: the questions that the look-ups know, asked of the tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from chordesk.agents.rulebook.cases import PREFIX, Call, Case, Payload, policy
from chordesk.models.asking.answers import MOST_ANSWER, MOST_LINE, MOST_LINES
from chordesk.models.text import one_line, undelimited
from chordesk.tasks.asking.proposing import wish
from chordesk.tasks.asking.questions import EXAMPLES, Question, cleaned, read

_ABOUT = (
    ("denied", ("denied", "deny", "refused", "blocked", "rejected")),
    ("not bought", ("not", "never", "didn't", "wasn't")),
    ("sold", ("sell", "sold", "closed", "exited", "reduced")),
    ("bought", ("buy", "bought", "opened", "entered")),
)
_COUNTED = re.compile(r"\d|\bthree\b")  # examples with a figure, which no tool gave
_STATES = ("open", "filled", "denied", "rejected", "unknown")
_SCORED = ("voice", "tool", "lens", "role", "rating", "thesis")


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, [], ())}


def _moments(asked: Question) -> dict[str, Any]:
    return _given(since=asked.since, until=asked.until)


def _symbols(asked: Question) -> list[str]:
    return list(asked.symbols[:5])


def _said(asked: Question, choices: tuple[str, ...]) -> str | None:
    return next((one for one in choices if asked.says(one, f"{one}s")), None)


def _about(asked: Question) -> str | None:
    return next((about for about, words in _ABOUT if asked.says(*words)), None)


# By intent, the calls that answer it.
_CALLS: dict[str, Callable[[Question], list[Call]]] = {
    "status": lambda asked: [Call("desk_status", {})],
    "waiting": lambda asked: [Call("waiting_list", {})],
    "changes": lambda asked: [Call("changes_list", _given(symbols=_symbols(asked), **_moments(asked)))],
    "why": lambda asked: [Call("desk_why", _given(symbols=_symbols(asked), about=_about(asked)))],
    "orders": lambda asked: [
        Call("orders_list", _given(symbols=_symbols(asked), state=_said(asked, _STATES), **_moments(asked)))
    ],
    "fills": lambda asked: [Call("fills_list", _given(symbols=_symbols(asked), **_moments(asked)))],
    "holdings": lambda asked: [Call("holdings_list", _given(symbols=_symbols(asked)))],
    "weakest": lambda asked: [Call("holdings_list", _given(order="weakest", count=asked.count))],
    "strongest": lambda asked: [Call("holdings_list", _given(order="strongest", count=asked.count))],
    "equity": lambda asked: [Call("equity_get", _moments(asked))],
    "gain": lambda asked: [Call("gains_list", _given(symbols=_symbols(asked), **_moments(asked)))],
    "fees": lambda asked: [Call("fills_list", _moments(asked))],
    "verdict": lambda asked: [Call("verdicts_list", {"symbols": _symbols(asked)})],
    "thesis": lambda asked: [Call("theses_list", {"symbols": _symbols(asked)})],
    "plan": lambda asked: [Call("plans_list", _given(symbols=_symbols(asked)))],
    "runs": lambda asked: [Call("runs_list", _given(symbols=_symbols(asked), count=asked.count))],
    "run": lambda asked: [Call("run_get", {"run": asked.ids[0]})] if asked.ids else [Call("runs_list", {"count": 1})],
    "compare": lambda asked: [Call("run_get", {"run": asked.ids[0], "other": asked.ids[1]})],
    "cost": lambda asked: [Call("costs_get", _given(run=asked.ids[0] if asked.ids else None, **_moments(asked)))],
    "scores": lambda asked: [Call("scores_get", _given(kind=_said(asked, _SCORED)))],
    "schedule": lambda asked: [Call("schedule_list", {})],
    "alerts": lambda asked: [Call("alerts_list", _moments(asked))],
    "setting": lambda asked: [Call("settings_get", {"names": list(asked.settings)})] if asked.settings else [],
    "symbol": lambda asked: [
        Call("verdicts_list", {"symbols": _symbols(asked)}),
        Call("holdings_list", {"symbols": _symbols(asked)}),
    ],
}  # fmt: skip


@policy("clerk")
def clerk(case: Case) -> Call | Payload:
    """Answer with the look-up's own words, by the tools that have it; else say what can be asked."""
    question = cleaned(str(case.subject.get("question") or "help"))
    asked = read(question, ())
    planned = _CALLS[asked.intent](asked) if asked is not None and asked.intent in _CALLS else []
    if (call := case.next_call(planned)) is not None:
        return call
    tools = [one.tool for one in planned]
    found = [row for tool in dict.fromkeys(tools) for row in case.payloads(tool)]
    text = "\n".join(undelimited(str(row.get("outside"))) or "" for row in found).strip()
    wanted = wish(question)
    proposals = [{"kind": wanted[0], "arguments": json.dumps(wanted[1])}] if wanted is not None else []
    if proposals:
        text = "it waits for a person to confirm it."
    elif not planned:
        text = f"no rule answers that. Ask such as: {'; '.join(one for one in EXAMPLES if not _COUNTED.search(one))}"
    sources = [str(one["id"]) for row in found for one in row.get("sources") or ()]
    return {
        "answer": f"{PREFIX} {text or 'the rows have nothing on it.'}"[:MOST_ANSWER],
        "sources": list(dict.fromkeys(sources))[:MOST_LINES],
        "missing": [one_line(gap, MOST_LINE) for gap in case.gaps(tools)][:MOST_LINES],
        "proposals": proposals,
    }
