"""Symbols as sources write them, and as files are named: with the country, the exchange or Bloomberg's and Reuters'
marks of a US listing."""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePosixPath

from chordesk.models.answers import spelled
from chordesk.models.exchanges import PLACES
from chordesk.tools.market.files.notation import bare
from chordesk.tools.market.universe import is_symbol

_HOME = (
    "US|USA|NASDAQ|NASDAQ(?:GS|GM|CM)|NAS|NYSE|NYSEARCA|NYSE ARCA|NYSEAMERICAN|NYSEMKT|ARCA|AMEX|BATS|CBOE|IEX|OTC|"
    "XNAS|XNGS|XNMS|XNCM|XNYS|XASE|ARCX|BATS|XBAT|NMS|NGM|NCM|NYQ|PCX|ASE"
)
_BEFORE = re.compile(rf"(?:{_HOME})(?::\s*|[./]|-(?!$))(.+)", re.IGNORECASE)
_AFTER = re.compile(rf"(.+?)(?:\s*[:@.]\s*|-|\s*\((?=.*\)$)|\s+)(?:{_HOME})\)?", re.IGNORECASE)
# Bloomberg's composite of the US and its exchanges.
_BLOOMBERG = re.compile(r"(.+?)\s+(?:US|UN|UQ|UW|UR|UA|UP|UF|UV)(?:\s+EQUITY)?", re.IGNORECASE)
# Reuters' exchanges: no class of a share is called so. A small letter before them is a class, as in BRKb.N.
_REUTERS = re.compile(r"([A-Za-z0-9.]+?)\.(?:O|OQ|N|K)")
_REUTERS_CLASS = re.compile(r"([A-Z]+)([a-z])")
# Shares of other exchanges whose names are also venues: BATS.L is a company in London, NAS.OL one in Oslo, which the
# desk does not know and refuses. What names a place of the US and nothing else stays one: NYSE.T is T.
_ABROAD = re.compile(rf"(?!NYSE|NASDAQ|X[A-Z]{{3}}\.|ARCX|USA?\.)[A-Z0-9&-]+\.(?:{'|'.join(PLACES)})")
_LONGEST = 60  # characters
_LOWLINE = re.compile(r"([A-Za-z]{1,5})_([A-Za-z])")


def listed(text: str) -> str:
    """Return a symbol in the desk's spelling without what says that it is listed in the US: AAPL.US, NASDAQ:AAPL,
    AAPL US Equity and AAPL.O are AAPL; BRK_B is BRK.B."""
    found = bare(text)
    if len(found) > _LONGEST:
        return spelled(found)
    if _ABROAD.fullmatch(found.upper()) is not None:
        return spelled(found)
    if (reuters := _REUTERS.fullmatch(found)) is not None:
        found = reuters[1]
        if (of_class := _REUTERS_CLASS.fullmatch(found)) is not None:
            return f"{of_class[1]}.{of_class[2].upper()}"
    for pattern in (_BLOOMBERG, _BEFORE, _AFTER):
        if (cut := pattern.fullmatch(found)) is not None:
            found = cut[1]
            break
    if (lowline := _LOWLINE.fullmatch(found)) is not None:
        found = f"{lowline[1]}.{lowline[2]}"
    return spelled(found.strip().removesuffix(" EQUITY"))


_WORDS = re.compile(r"[_\s(),]+|-(?=[A-Za-z])|(?<=[a-z]{4})-(?=\d)")
_NOISE = re.compile(
    r"daily|hourly|intraday|prices?|data|stocks?|shares?|histor(y|ical|icaldata)|ohlcv?|bars|candles|adjusted|full|"
    r"compact|max|time|series|us|usd|\d+(min|m|d|h|w)|h|d|\d+(-\d+)*|downloads?|exports?|table|quotes?|chart|dly|wiki|eod|"
    r"nasdaq|nyse|amex|arca|bats|cboe|xnas|xnys|arcx|[0-9a-f]{5}|historische|daten|kursdaten|historiques|donnees|cours|"
    r"historicos|datos|dados|storici|dati|dane|historyczne|gecmis|verileri|прошлые|данные|of|copy|-"
)
_NO_NAMES = frozenset(
    {"download", "export", "table", "quotes", "prices", "history", "stock", "stocks", "data", "chart", "bars"}
)
_ENDINGS = frozenset({".csv", ".txt", ".tsv", ".json", ".jsonl", ".parquet"})
_COPY = re.compile(r"(?:\s*\(\d+\)|\s+-\s+Copy)+$")
_SOURCE = re.compile(r"(?:WIKI|EOD|NASDAQ|NYSE|AMEX)-(?=.)")


def symbol_in(name: str) -> str | None:
    """Return the symbol of a file of bars by its name: AAPL.csv, aapl.us.txt, daily_prices_AAPL.json; else None."""
    stem = PurePosixPath(name.rpartition(":")[2]).stem
    while PurePosixPath(stem).suffix.lower() in _ENDINGS:  # AAPL.csv.gz, and AAPL.csv.txt, as some programs save it
        stem = PurePosixPath(stem).stem
    stem = "".join(one for one in unicodedata.normalize("NFKD", stem) if not unicodedata.combining(one))
    stem = _COPY.sub("", stem)
    whole = listed(_SOURCE.sub("", stem))
    if is_symbol(whole) and (stem.lower() not in _NO_NAMES or (stem.isupper() and len(stem) < 5)):
        return whole
    words = [word for word in _WORDS.split(stem) if word and not _NOISE.fullmatch(word.lower())]
    if len(words) != 1 or (words[0].istitle() and len(words[0]) > 1):
        return None  # Apple is a company in `Apple Stock Price History.csv`, and no symbol
    found = listed(words[0])
    return found if is_symbol(found) else None
