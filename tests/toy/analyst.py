"""A model that plays the agents of TradingAgents: it calls every tool that it is offered, with arguments that fit, and
rates as it is given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.fakes.obedient import fill, obedient
from tests.fakes.responses import Reply, Text

_TICKER = re.compile(r"[`'\"]([A-Z]{1,5})[`'\"]")
_DAY = re.compile(r"\b(?:19|20)\d\d-\d\d-\d\d\b")


def analyst(rating: str = "Buy", indicator: str = "rsi,close_50_sma") -> Callable[[dict[str, Any]], Reply]:
    """Return such a model. rating: what its structured answers name where they can."""

    def policy(body: dict[str, Any]) -> Reply:
        schema = body["text"]["format"]["schema"]
        branches = schema["properties"].get("reply", {}).get("anyOf", [])
        if branches and body["input"][-1].get("type") != "function_call_output":
            return Text(
                json.dumps({"reply": {"mode": "tool_calls", "content": "", "tool_calls": _calls(body, schema)}})
            )
        if not branches and "answer" not in schema["properties"]:
            return Text(json.dumps(_chosen(schema, rating)))
        return obedient(body)

    def _calls(body: dict[str, Any], schema: dict[str, Any]) -> list[Any]:
        text = json.dumps(body["input"])
        ticker = next(iter(_TICKER.findall(text.replace("\\", ""))), "IBM")
        day = next(iter(_DAY.findall(text)), "2010-03-10")
        known = {"symbol": ticker, "ticker": ticker, "indicator": indicator, "topic": "rates"}
        known |= dict.fromkeys(("curr_date", "end_date"), day) | {"start_date": f"{day[:5]}01-04", "freq": "annual"}
        branches = schema["properties"]["reply"]["anyOf"]
        items = next(one for one in branches if "tool_calls" in one["properties"])["properties"]["tool_calls"]["items"]
        calls = [fill(one, "'x' 5", schema, final=False) for one in items.get("anyOf", [items])]
        for call in calls:
            call["arguments"] |= {name: value for name, value in known.items() if name in call["arguments"]}
        return calls

    return policy


def _chosen(schema: dict[str, Any], rating: str) -> dict[str, Any]:
    """Return a structured answer with this rating where one can be named."""
    found: dict[str, Any] = fill(schema, "'as the reports have it' 5", schema, final=True)
    for name in ("rating", "recommendation", "action"):
        if name in found:
            found[name] = rating
    return found
