"""Figures that a stand-in quotes from a tool's answer, as a model that does its work would."""

from __future__ import annotations

import json
from typing import Any


def quoted(body: dict[str, Any], symbol: str) -> str:
    """Return a sentence with two figures of a symbol's signals, of a request's last tool answer; empty without any."""
    outputs = [item.get("output") for item in body["input"] if item["type"] == "function_call_output"]
    try:
        rows = json.loads(outputs[-1] or "")["signals"]
        (row,) = (one for one in rows if one["symbol"] == symbol)
        return f" Its close is {row['close']:.2f}, its RSI-14 {row['rsi14']:.1f}."
    except (IndexError, KeyError, TypeError, ValueError):
        return ""
