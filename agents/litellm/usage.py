"""Tokens and price of one model call."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import structlog

from chordesk.agents.litellm.config import is_rules
from chordesk.agents.litellm.library import library
from chordesk.models.research import Usage

log = structlog.get_logger(__name__)

MOST_TOKENS = 100_000_000  # of one call: more is no count of tokens


def total_of(counted: Iterable[Any]) -> Any:
    """Return what a provider counted for a call, of the counts that came with its chunks: some count what was read at
    the beginning, and what was written at the end. None where either is not counted."""
    read = made = None
    for usage in counted:
        read = usage if _count(usage, "prompt_tokens") else read
        made = usage if _count(usage, "completion_tokens") else made
    if read is None or made is None or made is read:
        return made if read is not None else None
    output = {name: getattr(made, name, None) for name in ("completion_tokens", "completion_tokens_details")}
    return read.model_copy(update=output)


def usage_of(counted: Any) -> Usage:
    """Return the tokens of one call, which are unknown where a figure cannot be: no call is without input or output.
    The library fills in zeros for a provider that gives no figures."""
    read, made = _count(counted, "prompt_tokens"), _count(counted, "completion_tokens")
    if not read or not made:
        return Usage.unknown()
    cached = _count(getattr(counted, "prompt_tokens_details", None), "cached_tokens") or 0
    reasoning = _count(getattr(counted, "completion_tokens_details", None), "reasoning_tokens") or 0
    return Usage(
        input_tokens=read,
        cached_input_tokens=cached if cached <= read else None,
        output_tokens=made,
        reasoning_tokens=reasoning if reasoning <= made else None,
        total_tokens=read + made,
    )


def _count(counted: Any, name: str) -> int | None:
    value = getattr(counted, name, None)
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def cost_of(model: str, counted: Any, usage: Usage) -> float | None:
    """Return the price of a call in USD: None for a model that the library has no price of, which it prices at 0."""
    if usage.missing or is_rules(model) or not _is_priced(model):
        return None
    try:
        known = counted if isinstance(counted, library().Usage) else library().Usage(**counted.model_dump())
        return float(sum(library().cost_per_token(model=model, usage_object=known)))
    except Exception as error:
        log.warning("model.no_cost", model=model, error=str(error))
        return None


@lru_cache(maxsize=64)
def _is_priced(model: str) -> bool:
    try:
        info = library().get_model_info(model)
    except Exception:
        return False
    return bool(info.get("input_cost_per_token")) and info.get("output_cost_per_token") is not None
