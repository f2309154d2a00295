"""What is decided by a day does not depend on what comes after it: of two walks over the same days one has made-up data
after its last day, and they come to the same in all that they saw and wrote."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlmodel import col, select

from chordesk.models.settings.sources import load_settings
from chordesk.models.states import RunState, StepState
from chordesk.models.tables.board import EpisodeQuestion, Forecast, Signal
from chordesk.models.tables.orders import BookedSettlement, EquityMark, Fill, Order, OrderCheck, Position, Preview
from chordesk.models.tables.runs import BacktestSession, Decision, Report, Run, ScreenHit, Step, ToolCall, Turn, Verdict
from chordesk.tasks.engine import kinds
from chordesk.tasks.measure.backtest import open_backtest
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.worker.work import work
from chordesk.tools.market.replay.market import CACHE_LAYOUT, PACKAGE, Columns, ReplayData, replay_data, write_cache
from tests import homes
from tests.databases import template
from tests.examples import examples
from tests.tools.market.files.folders import sessions, write_table

VISITED = sessions("2010-04-30", 3)
REPLAYED = ("AAPL", "F", "GE", "IBM", "XOM")
DATABASE = 9  # of the tests' Redis: nothing else uses it
TABLES: tuple[Any, ...] = (
    ScreenHit, ToolCall, Turn, Report, Verdict, Decision, Order, OrderCheck, Preview, Fill, BookedSettlement, Position,
    EquityMark, Signal, Forecast, EpisodeQuestion, BacktestSession,
)  # fmt: skip
# Ids, times of the clock on the wall and what follows from them, such as the orders of the last minute.
OWN = re.compile(
    r"(?<='order_rate'\], 'denied': None, 'figure': )'this would be order \d+'|"
    r"\b[a-z]{4}-[a-z]{1,2}\b|"
    r"files-[0-9a-f]{8}|backtest-[0-9a-f]{12}|\b[0-9a-f]{32}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{64}\b"
)
LEFT_OUT = re.compile(
    r"(^|_)id$|^(created|updated|started|finished|sent|processed)_at$|^seconds$|_seconds$|^payload(_hash)?$"
    r"|^booked$"  # when its question is resolved, which is later
)


HEADERS = {
    "files": ("date", "open", "high", "low", "close", "adj close", "volume"),
    "news-2020": ("date", "adj close", "volume"),  # as that sample is
}
SPLIT, DIVIDEND = dt.date(2010, 5, 3), dt.date(2010, 5, 4)  # of GE, 2:1, and of XOM, among the visited days


def written(folder: Path, data: ReplayData, chance: random.Random | None, form: str) -> Path:
    """Write names of the replay as a data folder of a form, with headlines, earnings, option quotes and members, and a
    name that comes later. chance: what makes up everything after the last visited day; the adjusted closes before it
    are of a later split and dividend then."""
    news, earnings, chains = list[Sequence[object]](), list[Sequence[object]](), list[Sequence[object]]()
    members = list[Sequence[object]]()
    for number, symbol in enumerate([*REPLAYED, "LATE"]):
        rows, steady = list[dict[str, Any]](), random.Random(number)
        scale = chance.choice([1.0, 0.05, 7.0, chance.uniform(0.01, 20)]) if chance and form == "files" else 1.0
        for day, *prices, volume in _bars(data, REPLAYED[0] if symbol == "LATE" else symbol):
            later = chance if chance is not None and day > VISITED[-1] else None
            own = later or steady
            if (symbol == "LATE" and day <= VISITED[-1]) or (later and own.random() < 0.1):
                continue
            if later is not None:
                low = own.uniform(10, 900)  # a larger jump is refused as a mistake
                prices = [low, low * 1.1, low, low * 1.05]
            halved = 0.5 if form == "files" and symbol == "GE" and day >= SPLIT else 1.0
            prices = [price * halved for price in prices]
            paid = 0.97 if symbol == "XOM" and day < DIVIDEND else 1.0
            factor = own.uniform(0.1, 3) if later else scale * paid * (0.5 if symbol == "GE" and day < SPLIT else 1.0)
            adjusted = prices[3] * (factor if form == "files" else 1.0)
            rows.append(dict(zip(HEADERS["files"], (day, *prices, adjusted, volume), strict=True)))
            if own.random() < 0.1:
                news.append((symbol, f"{day}T10:00:00-05:00", f"{symbol} says {own.randint(0, 10**6)}", "a wire"))
            if form == "files" and symbol == "GE" and day > VISITED[0] - dt.timedelta(days=9):
                for strike in (8, 15, 17, 19):
                    bid = own.uniform(0.5, 3)
                    contract = f"GE101218P{strike * 1000:08d}"
                    chains.append((day, contract, bid, bid + 0.1, own.randint(1, 900), 900, prices[3]))
        header = HEADERS[form]
        write_table(folder / "bars" / f"{symbol}.csv", header, [[row[name] for name in header] for row in rows])
        for report in range(1, 3):
            day = VISITED[-1] + dt.timedelta(days=chance.randint(1, 90) + 91 * report if chance else 40 * report)
            earnings.append((symbol, day, day, chance.uniform(0, 9) if chance else 1.0))
        leaves = VISITED[-1] + dt.timedelta(days=chance.randint(1, 60)) if chance and chance.random() < 0.5 else ""
        members.append((symbol, "Energy" if number % 2 else "Tech", "", leaves))
    write_table(folder / "headlines.csv", ("symbol", "time", "headline", "source"), news)
    write_table(folder / "earnings.csv", ("symbol", "date", "announced", "eps"), earnings)
    if form == "files":
        write_table(folder / "universe.csv", ("symbol", "sector", "from", "to"), members)
        header = ("quote_date", "contract", "bid", "ask", "volume", "open_interest", "spot")
        write_table(folder / "chains.csv", header, chains)
    return folder


def _bars(data: ReplayData, symbol: str) -> Iterator[tuple[Any, ...]]:
    rows = data.rows(symbol, dt.date.max)
    figures = (getattr(data.columns, name)[rows].tolist() for name in Columns._fields[3:])
    yield from zip(map(dt.date.fromordinal, data.columns.day[rows].tolist()), *figures, strict=True)


def replayed(home: Path, data: ReplayData, chance: random.Random | None) -> None:
    """Put the replay's data into a home's cache, with everything after the last visited day made up: names may leave
    the market."""
    columns, later = data.columns, data.columns.day > VISITED[-1].toordinal()
    kept = np.ones(len(later), dtype=bool)
    figures = {}
    for name in Columns._fields[3:]:
        values = getattr(columns, name).copy()
        if chance is not None:
            values[later] = np.random.default_rng(chance.randint(0, 10**9)).uniform(1, 900, int(later.sum()))
        figures[name] = values
    if chance is not None:
        gone = np.random.default_rng(chance.randint(0, 10**9)).random(len(columns.symbols)) < 0.2
        kept = ~(later & np.repeat(gone, np.diff(columns.start)))
    counts = np.add.reduceat(kept, columns.start[:-1])
    columns = columns._replace(**figures)
    arrays = {name: getattr(columns, name)[kept] for name in Columns._fields[2:]}
    columns = columns._replace(start=np.r_[0, np.cumsum(counts)], **arrays)
    there = counts > 0
    columns = columns._replace(symbols=columns.symbols[there], start=np.r_[0, np.cumsum(counts[there])])
    path = home / "cache" / f"replay-{importlib.metadata.version(PACKAGE)}-{CACHE_LAYOUT}.npz"
    path.parent.mkdir(parents=True)
    write_cache(path, columns._asdict())


def walked(home: Path, url: str, environ: Mapping[str, str], symbols: Sequence[str]) -> dict[str, list[str]]:
    """Play a walk in this process, a step after the other, and return all that it wrote, by table."""
    shutil.copy(template(), home / "desk.db")
    given = {"DESK_HOME": str(home), "DESK_REDIS_URL": url, "DESK_RULEBOOK_URL": "http://127.0.0.1:9/v1", **environ}
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    app = create_app(load_settings({**given, "DESK_REPLAY_DATE": str(VISITED[0])}, home), "walk")
    desk = app.desk
    try:
        run = open_backtest(app, VISITED[0], VISITED[-1], universe=",".join(symbols), memory="on", rounds=1)
        while ready := _ready(app):
            for step_id, kind in ready:
                spec = kinds.find_step(kind)
                assert spec is not None
                work(app, step_id, spec.handler)
        with desk.store.read() as session:
            done = session.get_one(Run, run.id)
            assert done.state == RunState.DONE, done.notes
            return {table.__name__: sorted(map(_plain, session.exec(select(table)).all())) for table in TABLES}
    finally:
        desk.close()
        app.close()


def _ready(app: Any) -> list[tuple[str, str]]:
    with app.desk.store.read() as session:
        waiting = select(Step.id, Step.kind).where(Step.state == StepState.READY)
        return list(session.exec(waiting.order_by(col(Step.created_at), col(Step.id))).all())


def _plain(row: Any) -> str:
    kept = {name: value for name, value in row.model_dump().items() if not LEFT_OUT.search(name)}
    return OWN.sub("#", str(dict(sorted(kept.items()))))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> ReplayData:
    return replay_data(tmp_path_factory.mktemp("replay"))


@pytest.fixture(scope="module", params=["replay", *HEADERS])
def play(
    request: pytest.FixtureRequest, data: ReplayData, redis_server: str
) -> Callable[[int | None], dict[str, list[str]]]:
    """Plays a walk on a market; with a seed on one whose future is made up."""

    def played(seed: int | None) -> dict[str, list[str]]:
        chance = random.Random(seed) if seed is not None else None
        with homes.owned() as home:
            url = f"{redis_server}?db={DATABASE}"
            if request.param == "replay":
                replayed(home, data, chance)
                return walked(home, url, {}, REPLAYED)
            folder = written(home / "data", data, chance, request.param)
            names = ("sp500",) if request.param == "files" else REPLAYED
            return walked(home, url, {"DESK_MARKET": "files", "DESK_DATA": str(folder)}, names)

    return played


@pytest.fixture(scope="module")
def true(play: Callable[[int | None], dict[str, list[str]]]) -> dict[str, list[str]]:
    """The walk with the future as it came."""
    found = play(None)
    assert all(found[name] for name in ("ScreenHit", "ToolCall", "Verdict", "Decision", "Order", "Fill", "Forecast"))
    return found


@pytest.mark.long
@settings(deadline=None, max_examples=min(examples(1), 20), suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32 - 1))
def test_nothing_depends_on_what_comes_after_it(
    play: Callable[[int | None], dict[str, list[str]]], true: dict[str, list[str]], seed: int
) -> None:
    found = play(seed)
    for name, rows in true.items():
        assert found[name] == rows, name
