"""Records of bars in JSON as the sources and pandas write it: lists of records, series by time, columns of arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from chordesk.tools.market.files.known_exports import plain

Record = Mapping[str, Any]

_NUMBERED = re.compile(r"^\d+[a-z]?\.\s*")  # Alpha Vantage's "2. Symbol"
_SYMBOLS = ("symbol", "ticker", "sym")
_PRICES = frozenset({"close", "c", "adjclose", "adjustedclose"})
_A_TIME = re.compile(r"\d{4}-\d\d-\d\d\b.*|\d{8}|\d{9,10}|\d{12,13}")


def records(found: Any) -> Iterator[tuple[str, Record]]:
    """Yield (symbol, record) of what a JSON document holds; the symbol is empty where only the record may state it."""
    if isinstance(found, list):
        yield from (("", one) for one in found if isinstance(one, dict))
    elif isinstance(found, dict):
        if isinstance(chart := found.get("chart"), dict):
            yield from _of_yahoo(chart)
        elif (columns := _as_records(found)) is not None:
            symbol, zone = _meta(found)
            yield from ((symbol, {**zone, **one}) for one in columns)
        else:
            yield from _of_object(found)


def _meta(found: Record) -> tuple[str, dict[str, str]]:
    """Return what a document states beside its bars: (symbol, zone by its heading)."""
    meta = next(
        (one for name, one in found.items() if plain(name) in ("metadata", "meta") and isinstance(one, dict)), found
    )
    named = {plain(_NUMBERED.sub("", name)): str(one) for name, one in meta.items() if not isinstance(one, dict | list)}
    symbol = next((named[name] for name in _SYMBOLS if name in named), "")
    zone = next((named[name] for name in ("timezone", "exchangetimezone") if name in named), None)
    return symbol, {"timezone": zone} if zone is not None else {}


def _of_object(found: Record) -> Iterator[tuple[str, Record]]:
    symbol, stated = _meta(found)
    series = [one for name, one in found.items() if plain(name).startswith("timeseries") and isinstance(one, dict)]
    lists = [one for one in found.values() if isinstance(one, list)]
    named_lists = [
        (str(name), one)
        for held in found.values()
        if isinstance(held, dict)
        for name, one in held.items()
        if isinstance(one, list)
    ]
    if named_lists and not series and not lists:  # Alpaca's bars by symbol
        yield from ((name, one) for name, rows in named_lists for one in rows if isinstance(one, dict))
    elif series:
        rows = ({"date": day, **one} for by_day in series for day, one in by_day.items() if isinstance(one, dict))
        yield from ((symbol, {**stated, **row}) for row in rows)
    elif lists:
        yield from ((symbol, {**stated, **one}) for rows in lists for one in rows if isinstance(one, dict))
    else:
        yield symbol, found


def _of_yahoo(chart: Record) -> Iterator[tuple[str, Record]]:
    """Yield the bars of the answer of Yahoo's chart service."""
    results = chart.get("result")
    for one in results if isinstance(results, list) else []:
        if not isinstance(one, dict):
            continue
        columns = {"timestamp": one.get("timestamp")}
        indicators = one.get("indicators")
        for held in indicators.values() if isinstance(indicators, dict) else []:
            if isinstance(held, list) and held and isinstance(held[0], dict):
                columns |= held[0]
        symbol, stated = _meta(one)
        yield from ((symbol, {**stated, **row}) for row in _as_records(columns) or [])


def _as_records(found: Record) -> list[Record] | None:
    """Return the rows of a table that is written by column: arrays of equal length, or pandas' orients split, columns
    and index; None of another object."""
    if {"columns", "index", "data"} <= found.keys() and all(
        isinstance(found[one], list) for one in ("columns", "data")
    ):
        names, rows = [_name(one) for one in found["columns"]], zip(found["index"], found["data"], strict=False)
        return [{"date": at, **dict(zip(names, row, strict=False))} for at, row in rows if isinstance(row, list)]
    arrays = {name: one for name, one in found.items() if isinstance(one, list) and not _nested(one)}
    if _PRICES & {plain(name) for name in arrays} and len({len(one) for one in arrays.values()}) == 1:
        return [dict(zip(arrays, row, strict=True)) for row in zip(*arrays.values(), strict=True)]
    if not found or not all(isinstance(one, dict) for one in found.values()):
        return None
    if all(_A_TIME.fullmatch(str(name)) for name in islice(found, 20)):
        return [{"date": at, **row} for at, row in found.items()]
    if _PRICES & {plain(name) for name in found}:
        times = dict.fromkeys(at for column in found.values() for at in column)
        return [{"date": at, **{name: column.get(at) for name, column in found.items()}} for at in times]
    return None


def _name(column: Any) -> str:
    return str(column[0]) if isinstance(column, list) and column else str(column)


def _nested(one: list[Any]) -> bool:
    return any(isinstance(value, dict | list) for value in one[:3])
