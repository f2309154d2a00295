"""The sample msft-chain: a real option chain, with the closes that go with it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from chordesk.models.contracts import contract_of
from chordesk.models.errors import UsageError
from chordesk.tools.market.samples.archives import member
from chordesk.tools.market.samples.catalog import PackageFile
from chordesk.tools.market.samples.plain_pickle import plain_pickle
from chordesk.tools.market.samples.writing import Table

PICKLE = "*/tests/fixtures/MSFT_chain.pkl"
CHAIN = (
    "quote_date", "contract", "bid", "ask", "volume", "open_interest", "iv", "delta", "gamma", "theta", "vega", "spot",
)  # fmt: skip
_DAYS_A_YEAR, _POINTS = 365, 100


def tables(files: Mapping[PackageFile, Path]) -> Iterator[Table]:
    """Yield the chain and the bars. The file's theta is for a year and its vega for a volatility of 1.00; here they are
    for a day and a point."""
    (path,) = files.values()
    chain = plain_pickle(member(path, PICKLE), path.name)
    if not isinstance(chain, dict):
        raise UsageError(f"{path.name} has no chain by day", remedy="fetch it again")
    try:
        rows = [_quote(row) for _, quotes in sorted(chain.items()) for row in quotes]
        closes = {row["quote_datetime"].date(): row["spot_price"] for quotes in chain.values() for row in quotes}
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path.name} has another layout: {error!r}", remedy="fetch it again") from None
    yield Table("chains.csv", CHAIN, rows)
    yield Table("bars/MSFT.csv", ("date", "close"), sorted(closes.items()))


def _quote(row: Mapping[str, Any]) -> tuple[object, ...]:
    quoted: dt.datetime = row["quote_datetime"]
    # Its ids have eight digits of a date and a strike in hundredths, so the contract is made of the terms.
    contract = contract_of(row["symbol"], row["expiration"], row["option_type"], Decimal(str(row["strike"])))
    return (
        quoted.date(),
        contract.symbol,
        row["bid"],
        row["ask"],
        row["volume"],
        row["open_interest"],
        row["implied_volatility"],
        row["delta"],
        row["gamma"],
        round(row["theta"] / _DAYS_A_YEAR, 8),
        round(row["vega"] / _POINTS, 8),
        row["spot_price"],
    )
