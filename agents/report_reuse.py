"""Whether an earlier report still says what a new one would: what it was made from, and the first thing that differs.

A report is made from its question and from the answers of its tools. Both are kept (`models.tables.runs.ReportBasis`);
later the same calls are made again, without a model, and each figure is held against the kept one within a tolerance by
its concept. It is always the original that is compared: of many small moves none is lost.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from chordesk.agents.grounding.figure_sources import IDENTITIES, field_of
from chordesk.agents.prompting import instructions, own_prompts
from chordesk.agents.role import Role
from chordesk.agents.role_models import role_models
from chordesk.agents.roles import toolset_hash
from chordesk.models.answers import output_schema
from chordesk.models.settings import Settings

# Move with the clock alone, or are of the turn.
_OF_TODAY = frozenset({
    "cite", "asOf", "date", "session", "previousSession", "source", "pricedAt", "quotedAt",
    "sessions", "highSessions",  # of a history that is a session longer each day
})  # fmt: skip
_AGE = re.compile(r", -?\d+ days old")  # at the end of what is said of a quarter
# Of headlines counted by day: a window moves on by itself, what is new in it does not.
_BY_DAY, _OF_WINDOW = "byDay", frozenset({"since", "headlines", "bySource"})
_TITLES = ("headline", "title")
# What a last price that is another by a tolerance makes of figures of many sessions, by their formulas; where these
# depend on how much a name moves, it is one that moves 1 % a session. RSI of 14: 50 / 14 / 0.01 points. MACD: the price
# times the last one's weight in its two means, and of its signal a fifth of it. ATR: price / 14. ADX: 75 points, of a
# share of a range of 1.5 % in two means of 14. Volatility of 20: its square by 252 / 20 of the last return's square.
RSI_POINTS, ADX_POINTS = 350, 75  # 7 points at 2 %; 1.5
_MOVE, _YEAR, _MACD, _SIGNAL, _ATR = 0.01, 252 / 20, 2 / 13 - 2 / 27, 2 / 10, 1 / 14
_PRICES = ("close", "lastClose")
BANDS = (1, 5, 20)  # days to an event: at most 1, 2 to 5, 6 to 20, more
_EVENT = re.compile(r"days(?:until|to)", re.IGNORECASE)
# Of a base rate: that they move with each day says nothing, its state counts.
_BY_CASES = frozenset({"n", "rose", "beatMedian", "low", "high", "move", "moveLow", "moveHigh"})


def role_digest(role: Role, brief: Mapping[str, Any], settings: Settings) -> str:
    """Of all that a turn of the role has besides its subject's figures."""
    model, own = role_models(settings)[role.key], own_prompts(settings).get(role.key)
    limits = {name: one for name, one in brief["constraints"].items() if name != "capital"}
    parts = [_role_part(role, own, instructions(role, settings)), model.label(settings), model.effort, settings.depth]
    return hashlib.sha256(orjson.dumps([*parts, limits], option=orjson.OPT_SORT_KEYS)).hexdigest()


@lru_cache(maxsize=256)
def _role_part(role: Role, own: str | None, told: str) -> str:
    """What is the same for all turns of a role: to make its schema anew each time costs more than all the rest."""
    parts = [told, toolset_hash(role.tools, own_prompt=own), output_schema(role.schema)]
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def shard_digest(role: str, question: Mapping[str, Any]) -> str:
    """As `role_digest`, of a screener's turn: the shards of a lens are told apart by their names."""
    return hashlib.sha256(orjson.dumps([role, question["symbols"]])).hexdigest()


def shard_basis(brief: Mapping[str, Any]) -> dict[str, Any]:
    """As `question_basis`, of a shard's subject: its names, by which its tools are asked, in any order."""
    return {
        "lens": brief["lens"],
        "rule": brief.get("rule"),
        "symbols": sorted(brief["symbols"]),
        "trend": (brief.get("regime") or {}).get("trend"),
    }


def question_basis(brief: Mapping[str, Any], *, held: bool) -> dict[str, Any]:
    """Return what of a candidate's subject a report may depend on; of its theses their lenses, not the wording."""
    rates = [{name: one for name, one in row.items() if name not in _BY_CASES} for row in brief.get("baseRates", ())]
    return {
        "instrument": brief["instrument"],
        "lenses": sorted({thesis["lens"] for thesis in brief.get("screenTheses", ())}),
        "trend": (brief.get("regime") or {}).get("trend"),
        "baseRates": rates,
        "held": held,
    }


def difference(then: Any, now: Any, tolerance: float, path: str, price: float | None = None) -> str | None:
    """Return the first thing that differs, by its path and with its figures; None where nothing does. tolerance: as a
    fraction, 0 for the same. price: of the row. No text of an answer is in it: those come from outside."""
    if then == now:
        return None  # most are, and to look into them takes a hundred times as long
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        return _of_mappings(then, now, tolerance, path, price)
    if isinstance(then, list) and isinstance(now, list):
        return _of_lists(then, now, tolerance, path, price)
    if _is_number(then) and _is_number(now):
        same = _close(path.rpartition(".")[2], float(then), float(now), tolerance, price)
        return None if same else f"{path} {then:g} -> {now:g}"
    if isinstance(then, str) and isinstance(now, str) and _AGE.sub("", then) == _AGE.sub("", now):
        return None
    return f"{path} is another"


def _of_mappings(
    then: Mapping[str, Any], now: Mapping[str, Any], tolerance: float, path: str, price: float | None
) -> str | None:
    price = next((float(then[name]) for name in _PRICES if _is_number(then.get(name))), price)
    names = {*then, *now} - _OF_TODAY
    if _BY_DAY in then and _BY_DAY in now:
        names -= _OF_WINDOW
        then = {**then, _BY_DAY: _still_counted(then[_BY_DAY], now[_BY_DAY])}
    for name in sorted(names):
        if (name in then) != (name in now):
            return f"{path}.{name} is {'new' if name in now else 'gone'}"
        if (found := difference(then[name], now[name], tolerance, f"{path}.{name}", price)) is not None:
            return found
    return None


def _still_counted(then: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """Without the days that have left the window since. What is no day is the count of the days before those."""
    first = min((day for day in now if day[:1].isdigit()), default="a")  # after each day, where none is left
    kept = {day: count for day, count in then.items() if first <= day and day[:1].isdigit()}
    return kept | {name: count for name, count in now.items() if not name[:1].isdigit()}


def _of_lists(then: list[Any], now: list[Any], tolerance: float, path: str, price: float | None) -> str | None:
    """Rows with a name are the same rows in any order; of headlines and plain values the sets count."""
    if not (keyed := [*map(_key, then), *map(_key, now)]) or None in keyed:
        if len(then) != len(now):
            return f"{path}: {len(then)} -> {len(now)}"
        pairs = zip(then, now, strict=True)
        return next((one for a, b in pairs if (one := difference(a, b, tolerance, path, price)) is not None), None)
    old, new = ({_key(one): one for one in rows} for rows in (then, now))
    if fresh := new.keys() - old.keys():
        return f"{path}: {len(fresh)} new"
    if gone := old.keys() - new.keys():
        return f"{path}: {len(gone)} gone"
    named = sorted((str(key), key) for key in old)
    rows = ((old[key], new[key]) for _, key in named if isinstance(old[key], Mapping) and not _is_headline(old[key]))
    return next((one for a, b in rows if (one := difference(a, b, tolerance, path, price)) is not None), None)


def _key(row: Any) -> str | None:
    """Return what a row is known by; None where it is known by its place alone."""
    if isinstance(row, Mapping):
        if _is_headline(row):
            return json.dumps([row.get(name) for name in _TITLES])
        names = [name for name in IDENTITIES if name != "date" and name in row]
        return json.dumps([row[name] for name in names], default=str) if names else None
    return None if isinstance(row, list) or _is_number(row) else json.dumps(row)


def _is_headline(row: Mapping[str, Any]) -> bool:
    return any(isinstance(row.get(name), str) for name in _TITLES)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _close(name: str, then: float, now: float, tolerance: float, price: float | None) -> bool:
    """Prices and ratios may differ by the tolerance, and so may what a return comes to: 1.05 for one of 5 %. Figures of
    many sessions may by what that makes of them, days to an event within their band, counts not at all."""
    if not tolerance:
        return then == now
    field = field_of(name)
    if (most := _of_sessions(name, field.concepts, tolerance, price)) is not None:
        return abs(now - then) <= most
    if name.startswith("volatility"):
        return abs(now * now - then * then) <= _YEAR * tolerance * (tolerance + 2 * _MOVE)
    if field.kind == "days" or _EVENT.match(name):
        return _band(then) == _band(now)
    if field.kind == "count":
        return then == now
    if field.kind == "fraction" or ("average" in field.concepts and max(abs(then), abs(now)) < 1):
        then, now = 1 + then, 1 + now
    return abs(now - then) <= tolerance * abs(then) + 1e-12


def _of_sessions(name: str, concepts: Collection[str], tolerance: float, price: float | None) -> float | None:
    """Return how far apart a figure of many sessions may be; None of another one, and where its price is not known."""
    if "rsi" in concepts:
        return RSI_POINTS * tolerance
    if "adx" in concepts:
        return ADX_POINTS * tolerance
    if price is None:
        return None
    if "macd" in concepts:
        return _MACD * (_SIGNAL if "signal" in concepts else 1) * tolerance * price
    return _ATR * tolerance * price if name.startswith("atr") else None


def _band(days: float) -> int:
    return sum(days > most for most in BANDS)


def answers_differ(
    then: Sequence[tuple[str, Mapping[str, Any]]], now: Mapping[str, Any], at: int, *, ok: bool, tolerance: float
) -> str | None:
    """Return what differs of the answer at a place among the kept ones. ok: whether the call succeeds now; a kept one
    did unless it has an error."""
    tool, payload = then[at]
    if ok != ("error" not in payload):
        return f"{tool} {'answers again' if ok else 'fails now'}"
    return difference(payload, now, tolerance, tool)
