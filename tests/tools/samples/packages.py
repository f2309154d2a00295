"""Packages of the layout of the real ones, small and made up."""

from __future__ import annotations

import csv
import datetime as dt
import hashlib
import io
import json
import pickle
import tarfile
import zipfile
from pathlib import Path

from chordesk.tools.samples.package_files import MSFT_CHAIN, NASDAQ_NEWS, NEWS_2020, PackageFile, Sample
from tests.tools.market.files.folders import sessions

DAYS = sessions("2019-12-02", 140)


def quote(day: dt.date, **changes: object) -> dict[str, object]:
    """A quote of the chain as the package has it."""
    return {
        "quote_datetime": dt.datetime.combine(day, dt.time()), "option_id": "MSFT20260417P00033500", "symbol": "MSFT",
        "strike": 335.0, "expiration": dt.date(2026, 4, 17), "option_type": "put", "spot_price": 356.77, "bid": 3.85,
        "ask": 3.95, "price": 3.9, "delta": -0.2157, "gamma": 0.0084, "theta": -75.5, "vega": 24.98,
        "open_interest": 4321, "volume": 987, "implied_volatility": 0.3673, **changes,
    }  # fmt: skip


def chain() -> dict[dt.datetime, list[dict[str, object]]]:
    days = [dt.date(2026, 3, 26), dt.date(2026, 3, 27), dt.date(2026, 3, 30)]
    quotes = [[quote(days[0], spot_price=360.0)], [quote(days[1])], []]
    return {dt.datetime.combine(day, dt.time()): rows for day, rows in zip(days, quotes, strict=True)}


def source_archive(path: Path, content: bytes) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("options_framework-1.0.0/tests/fixtures/MSFT_chain.pkl")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return path


def chain_package(folder: Path, content: object = None) -> Path:
    return source_archive(folder / "options.tar.gz", pickle.dumps(chain() if content is None else content))


def news_packages(folder: Path) -> tuple[Path, Path]:
    news, prices = folder / "news.whl", folder / "prices.whl"
    site = {"image": "x", "text": "x", "site": "wire.example", "url": "https://wire.example/1"}
    texts = {
        "AAA": [("2020-06-12 10:30:00", "timed"), ("2020-06-12 00:00:00", "undated"), ("2018-01-02 10:00:00", "early")],
        "BBB": [("2020-06-11 09:00:00", "two\n lines")],
        "NOPRICES": [("2020-06-11 09:00:00", "unpriced")],
    }
    with zipfile.ZipFile(news, "w") as archive:
        for symbol, rows in texts.items():
            listed = [{"symbol": symbol, "publishedDate": time, "title": title, **site} for time, title in rows]
            archive.writestr(f"nasdaq_news/data/{symbol}.json", json.dumps([*listed, listed[0]]))
    with zipfile.ZipFile(prices, "w") as archive:
        for name, cells in (("", ["100.5", "20"]), (" volume", ["1000", ""])):
            text = io.StringIO()
            rows = [[f"{day}", *cells, "7"] for day in DAYS]
            csv.writer(text).writerows([["Date", "AAA", "BBB", "NONEWS"], *rows, ["2016-12-30", "1", "1", "1"]])
            archive.writestr(f"portfolio_backtester/data/SP500 20060901-20211015{name}.csv", text.getvalue())
    return news, prices


def pinned(wanted: PackageFile, path: Path) -> PackageFile:
    return wanted._replace(sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def chain_sample(path: Path) -> tuple[Sample, dict[PackageFile, Path]]:
    """The sample of a chain package, and its file."""
    wanted = pinned(MSFT_CHAIN.files[0], path)
    return MSFT_CHAIN._replace(files=(wanted,)), {wanted: path}


def news_sample(folder: Path) -> tuple[Sample, dict[PackageFile, Path]]:
    """The sample of two packages, and their files."""
    paths = dict(zip((NASDAQ_NEWS.package, "portfolio-backtester"), news_packages(folder), strict=True))
    files = {pinned(wanted, paths[wanted.package]): paths[wanted.package] for wanted in NEWS_2020.files}
    return NEWS_2020._replace(files=tuple(files)), files
