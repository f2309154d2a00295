"""Accounts that a source of a feature reads: it gets its own variables and nothing else, and what it answers is checked
as a file is."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, get_args

from chordesk.models import features
from chordesk.models.errors import DeskError, ServiceError, UsageError
from chordesk.models.settings.schema import HOLDINGS_SOURCES
from chordesk.models.settings.variables import SUFFIX, source_keys
from chordesk.models.statements import Holding, Kind, Read, Snapshot, Statement, merged
from chordesk.models.text import one_line
from chordesk.models.urls import HIDDEN
from chordesk.tools.holdings.formats.format import MOST_SHARES, MOST_UNITS
from chordesk.tools.holdings.sheets import MOST_MONEY, MOST_ROWS
from chordesk.tools.market.fetching import OutOfTime, within
from chordesk.tools.market.universe import is_symbol

SECONDS = 300.0  # that a source may take
_CURRENCY = re.compile(r"[A-Z]{3,10}")


def chosen(names: list[str], environ: Mapping[str, str], linked: Collection[str] = ()) -> list[str]:
    """Return the named sources and linked accounts; without a name, all that there are, of sources those whose keys are
    set. Raises UsageError."""
    for name in names:
        if name in linked:
            continue
        if name not in HOLDINGS_SOURCES:
            known = ", ".join((*HOLDINGS_SOURCES, *linked)) or "none"
            raise UsageError(f"there is no source {one_line(name, 40)!r} of holdings", remedy=f"known: {known}")
        if source_keys(name, environ) is None:
            raise UsageError(f"{name} needs {needed(name)} in the environment", remedy=f"set them, or each {SUFFIX}")
    found = names or [*(name for name in HOLDINGS_SOURCES if source_keys(name, environ) is not None), *linked]
    if not found:
        known = "; ".join(f"{name}: {needed(name)}" for name in HOLDINGS_SOURCES)
        reason = "no source of holdings has its keys in the environment, and no desk is linked"
        raise UsageError(reason, remedy=f"set them ({known}), or desk holdings link HOME")
    return list(dict.fromkeys(found))


def needed(name: str) -> str:
    return " and ".join(HOLDINGS_SOURCES[name].credentials)


def read_source(
    name: str, environ: Mapping[str, str], rates: Mapping[str, Decimal] | None = None, today: dt.date | None = None
) -> Read:
    """Return what a source answers. Raises a DeskError, in which none of its keys is, for no answer and for one that
    cannot be right."""
    described, given = HOLDINGS_SOURCES[name], source_keys(name, environ)
    if given is None:
        raise UsageError(f"{name} needs {needed(name)} in the environment", remedy=f"set them, or each {SUFFIX}")
    secrets = [given[key] for key in described.credentials]
    try:
        read: Callable[[Mapping[str, str]], Any] = features.part("holdings", name, described.read, Callable)
        answer = within(SECONDS, lambda: features.built(lambda: read(given)), f"holdings-{name}")
    except OutOfTime as error:
        raise ServiceError(f"{name}: {error}", remedy="try again later; nothing was written") from None
    except DeskError as error:
        error.args = tuple(_without(secrets, str(one)) for one in error.args)
        error.remedy = _without(secrets, error.remedy)
        raise error from None
    if not isinstance(answer, Snapshot):
        raise UsageError(f"the source {name} answers {type(answer).__name__}, and a Snapshot is due")
    last = today or max(dt.date.today(), dt.datetime.now(dt.UTC).date())  # a venue's day may be UTC's
    statements = tuple(_checked(name, one, rates or {}, last) for one in answer.statements if one.holdings)
    if not statements:
        raise UsageError(f"{name} shows no holdings", remedy="look whether its keys are of the account that is meant")
    text = "\n".join(repr(one) for one in statements)
    notes = tuple(one_line(_without(secrets, note), 200) for note in answer.notes)
    return Read(name, described.shown, hashlib.sha256(text.encode()).hexdigest(), statements, notes=notes)


def _without(secrets: list[str], text: str) -> str:
    for one in secrets:
        text = text.replace(one, HIDDEN) if len(one) > 3 else text
    return text


def _checked(name: str, found: Statement, rates: Mapping[str, Decimal], today: dt.date) -> Statement:
    """Return a statement with the rates that a person said. Raises UsageError for what no account can hold."""
    if found.as_of is None or not dt.date(1990, 1, 1) <= found.as_of <= today:
        raise UsageError(f"{name} answers as of {found.as_of}, and today is {today}", remedy="nothing was written")
    if len(found.holdings) > MOST_ROWS:
        raise UsageError(f"{name} answers more than {MOST_ROWS:,} holdings", remedy="nothing was written")
    for one in found.holdings:
        if (why := _wrong(one)) is not None:
            what = one_line(one.symbol or one.name, 40)
            raise UsageError(f"{name}: {what!r} {why}", remedy="nothing was written; its source may need an upgrade")
    rows = tuple(replace(one, rate=one.rate or rates.get(one.currency)) for one in merged(found.holdings))
    return replace(found, holdings=rows)


def _wrong(row: Holding) -> str | None:
    if row.kind not in get_args(Kind):
        return f"is of the kind {row.kind!r}, and one of {', '.join(get_args(Kind))} is due"
    if _CURRENCY.fullmatch(row.currency) is None:
        return f"is in {one_line(row.currency, 20)!r}, which is no currency"
    if row.symbol is not None and row.kind == "share" and not is_symbol(row.symbol):
        return f"has {one_line(row.symbol, 20)!r}, which is no symbol"
    amounts = {"quantity": row.quantity, "price": row.price, "value": row.value, "cost": row.cost, "rate": row.rate}
    for what, amount in amounts.items():
        most = MOST_UNITS.get(row.kind, MOST_SHARES) if what == "quantity" else MOST_MONEY
        if amount is not None and (not isinstance(amount, Decimal) or not amount.is_finite() or abs(amount) >= most):
            return f"has the {what} {one_line(str(amount), 30)}, which cannot be"
    if row.rate is not None and row.rate <= 0:
        return f"has the rate {row.rate}, which cannot be"
    return None
