"""`desk demo` whole, and the wall around it."""

from __future__ import annotations

import datetime as dt
import json
import re
import signal
import subprocess
from decimal import Decimal
from pathlib import Path

import httpx
import psutil
import pytest
from PIL import Image
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.market import contract_of
from chordesk.models.settings import running_desk
from chordesk.models.settings.sources import load_settings
from chordesk.models.states import RunKind
from chordesk.models.tables.orders import Fill, Order
from chordesk.models.tables.runs import Candidate, Run, ToolCall, Verdict
from chordesk.tasks.samples import demo
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.option_pricing import Terms, price
from tests.patience import PATIENCE
from tests.stack import wait_for
from tests.tasks.cli.closed import make_closed
from tests.tasks.cli.running import desk, environment
from tests.tools.conftest import read_raw

POISON = {
    "OPENAI_API_KEY": "sk-poison",
    "ALPACA_API_KEY": "poison",
    "APCA_API_SECRET_KEY": "poison",
    "AWS_SESSION_TOKEN": "poison",
    "SOME_NEW_THING": "poison",
    "TRADER_LIVE": "1",
    "DESK_PROVIDER": "codex",
    "DESK_MARKET": "yahoo",
    "DESK_DATABASE_URL": "postgresql://poison@127.0.0.1/desk",
    "DESK_REDIS_URL": "redis://127.0.0.1:1/0",
    "AUTONOMOUS_CONFIG_JSON": '{"maxCandidates": 1}',
}
DAY, NEXT = "2010-06-29", dt.date(2010, 6, 30)
HOLED, WHOLE = ("AAPL", "COST"), ("AZO", "IBM", "MCK", "NEM", "SO", "VZ")


def test_nothing_of_the_users_environment_gets_in(tmp_path: Path) -> None:
    made = demo.environment({**POISON, "PATH": "/bin", "LC_ALL": "C.UTF-8", "TERM": "xterm"}, tmp_path, live=False)
    assert not any("poison" in value for value in made.values())
    assert made["PATH"] == "/bin"
    assert made["LC_ALL"] == "C.UTF-8"
    assert "TRADER_LIVE" not in made
    settings = load_settings(made, demo.fresh_home(tmp_path / "home"))
    assert (settings.provider, settings.market, settings.broker) == ("rulebook", "replay", "paper")
    assert not settings.trader_live
    assert settings.max_candidates == 20
    assert demo.left_out({**POISON, "DESK_BROKER": "paper", "DESK_REPLAY_DATE": DAY}) == [
        "AUTONOMOUS_CONFIG_JSON",
        "DESK_DATABASE_URL",
        "DESK_MARKET",
        "DESK_PROVIDER",
        "DESK_REDIS_URL",
        "TRADER_LIVE",
    ]


def test_fills_need_the_demos_own_switch(tmp_path: Path) -> None:
    assert demo.environment({}, tmp_path, live=True)["TRADER_LIVE"] == "1"


def test_files_further_up_do_not_reach_the_demo(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DESK_MAX_CANDIDATES=1\nDESK_PROVIDER_KEY=poison\n", encoding="utf-8")
    (tmp_path / "desk.toml").write_text("max_candidates = 2\n", encoding="utf-8")
    home = demo.fresh_home(tmp_path / "home")
    settings = load_settings(demo.environment({}, home, live=False), home)
    assert settings.max_candidates == 20
    assert settings.provider_key is None


def test_only_a_demos_folder_is_wiped(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis").touch()
    with pytest.raises(UsageError, match="not made by an earlier demo"):
        demo.fresh_home(tmp_path / "work")
    assert (tmp_path / "work" / "thesis").exists()
    home = demo.fresh_home(tmp_path / "mine")
    (home / "old").touch()
    assert not (demo.fresh_home(home) / "old").exists()


WRONG = [
    ({"DESK_REPLAY_DATE": "2010-05-22"}, "DESK_REPLAY_DATE=2010-05-22 is no session of the New York Stock Exchange"),
    ({"DESK_REPLAY_DATE": "yesterday"}, "DESK_REPLAY_DATE"),
    ({"DESK_REPLAY_DATE": DAY, "DESK_UNIVERSE": "IBM,NOPE"}, f"the replay market does not carry NOPE on {DAY}"),
]


@pytest.mark.parametrize(("environ", "message"), WRONG)
def test_a_day_or_a_universe_that_cannot_be_shown_starts_nothing(
    tmp_path: Path, environ: dict[str, str], message: str
) -> None:
    done = desk(tmp_path, "demo", "--home", str(tmp_path / "demo"), **environ)
    assert (done.returncode, done.stdout) == (2, "")
    error, remedy = done.stderr.splitlines()
    assert error.startswith(f"error: {message}") or message in error
    assert remedy.startswith("remedy: ")
    assert not (tmp_path / "demo" / "logs").exists()


@pytest.mark.long
def test_another_day_fills_at_other_prices_and_stays_up_with_its_page_until_ctrl_c(tmp_path: Path) -> None:
    """AAPL and COST have no bar of this day: no BUY on them. Fills are at the next session's open, each with its
    stop. With the network closed and a broker's keys about, nothing but paper is reached."""
    (tmp_path / "names.txt").write_text("\n".join(["# names", *HOLED, *WHOLE]), encoding="utf-8")
    chosen = {"DESK_REPLAY_DATE": DAY, "DESK_UNIVERSE": "names.txt", "DESK_PROTECT": "stop:8%", "TRADER_LIVE": "1"}
    keys = {"ALPACA_API_KEY": "poison-key", "ALPACA_SECRET_KEY": "poison-secret"}
    home, log, closed = tmp_path / "demo", tmp_path / "log", make_closed(tmp_path)
    command = [closed.python, "-P", "-m", "chordesk.tasks.cli.main", "demo", "--home", home, "--live", "--page"]
    with log.open("wb") as out:
        environ = environment(tmp_path, **chosen, **keys)
        process = subprocess.Popen(command, env=environ, cwd=tmp_path, stdout=out, stderr=out)
    try:
        wait_for(lambda: process.poll() is not None or "the page: " in log.read_text(), "the link", 3 * PATIENCE)
        link = re.search(r"the page: (http://127\.0\.0\.1:\d+)/#\S{43}\n", log.read_text())
        assert link, log.read_text()
        _, _, rest = log.read_text().partition("What happened, and the evidence")
        assert "turns on" in rest.partition("the page: ")[0], "the evidence is there before it waits"
        assert httpx.get(link[1], headers={"Accept": "text/html"}).status_code == 200
        assert running_desk.is_up(home)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    shown = log.read_text()
    assert shown.count("What happened, and the evidence") == 1
    assert "none left running" in shown
    assert not running_desk.is_up(home)
    assert f"replay of {DAY}" in shown
    assert "not taken over: DESK_HOME, TRADER_LIVE\n" in shown
    assert any("worker trade" in line for line in closed.lines("began")), "its children are watched too"
    assert closed.lines("reached") == closed.lines("import") == []
    store = Store(f"sqlite:///{home / 'desk.db'}")
    with store.read() as session:
        run = session.exec(select(Run).where(Run.kind == RunKind.SCREEN)).one()
        bought = select(Verdict).where(Verdict.rating == "BUY", Verdict.run_id == run.id)
        shares = bought.join(Candidate).where(Candidate.instrument == "equity")
        rated = {row.symbol for row in session.exec(shares)}
        calls = session.exec(select(ToolCall).where(ToolCall.tool == "signals_get")).all()
        orders = session.exec(select(Order).where(Order.contract.is_(None))).all()  # type: ignore[union-attr]
        fills = session.exec(select(Fill).where(Fill.order_id.in_([order.id for order in orders]))).all()  # type: ignore[attr-defined]
    store.close()
    assert {row.account for row in (*orders, *fills)} == {"paper"}
    assert sorted(run.params["symbols"]) == sorted([*HOLED, *WHOLE])
    assert len(rated) > 1
    assert not rated & set(HOLED)
    named = {(row.get("symbol"), row["what"]) for call in calls for row in json.loads(call.output)["missing"]}
    assert {(symbol, "bars") for symbol in HOLED} <= named
    assert {fill.symbol for fill in fills} == rated
    raw = read_raw()
    for fill in fills:
        assert fill.filled_at.date() == NEXT
        assert fill.price == pytest.approx(raw[fill.symbol][NEXT].open, rel=0.001)
    stops = {order.symbol: (order.state, order.quantity, order.order_type) for order in orders if order.protects}
    assert stops == {fill.symbol: ("submitted", fill.quantity, "stop") for fill in fills}


def sample(folder: Path) -> Path:
    """Write closes and puts of MSFT as the sample has them, priced at one volatility; return the folder."""
    (folder / "bars").mkdir(parents=True)
    days = exchange_hours().until(dt.date(2026, 3, 27), 18)
    closes = [f"{day},{400 - 2 * place}" for place, day in enumerate(days)]
    (folder / "bars" / "MSFT.csv").write_text("\n".join(["date,close", *closes]) + "\n", encoding="utf-8")
    spot, expiry = 400.0 - 2 * (len(days) - 1), dt.date(2026, 4, 17)
    rows = ["quote_date,contract,bid,ask,volume,open_interest,spot"]
    for strike in range(320, 381, 5):
        years = (expiry - days[-1]).days / 365
        mid = price(Terms("put", spot, float(strike), years, 0.04), 0.36)
        name = contract_of("MSFT", expiry, "put", Decimal(strike)).symbol
        rows.append(f"{days[-1]},{name},{mid - 0.05:.2f},{mid + 0.05:.2f},500,1000,{spot}")
    (folder / "chains.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def whole(folder: Path, output: str) -> None:
    """What a demo of the whole universe with its sample shows, with its home in a folder, and that nothing is left."""
    assert "MISSING" not in output
    screened = re.search(r"(\d+) symbols screened", output)
    assert screened
    assert int(screened[1]) >= 500
    candidates = re.search(r"(\d+) candidates; verdicts: (.*)", output)
    assert candidates
    assert int(candidates[1]) >= 10
    assert len(candidates[2].split(",")) >= 2
    assert re.search(r"Codex app-server processes seen at work: \d+", output)
    for case in (
        r"    for: .*",
        r"    against: .*",
        r"    Theses: 0\.\d+ .*",
        r"  the size of \w+: at most .*",
        r"  its plan: .*stop .*",
    ):
        assert re.search(rf"^{case}$", output, re.MULTILINE), case
    assert "filled" not in re.search(r"orders: (.*)", output)[1]  # type: ignore[index]
    analysed = re.search(r"^  analysis \w+: (.*)", output, re.MULTILINE)
    assert analysed
    assert sorted(part.split()[1] for part in analysed[1].split(", ")) == ["reject", "select", "select"]
    assert re.search(r"puts selected, from modelled quotes: \w+ .*; orders: previewed 2", output)
    assert re.search(
        r"analysis \w+: MSFT select\n +puts selected, from a real chain: MSFT260417P\d{8} .*: none", output
    )
    shares = re.findall(r"(\d+) of (\d+) figures in the analysts' texts were found", output)
    assert len(shares) == 2
    assert all(found == every and int(found) > 5 for found, every in shares)
    assert re.search(r"\d+%: call \d, option_chain_get /contracts/\d+/rocWeekly = 0\.\d+", output)
    assert re.search(r"board \w+: signals .*live [1-9]\d*; [1-9]\d* questions", output)
    cited = re.search(r"\d+ forecasts of 6 voices; (\d+) of (\d+) citations count", output)
    assert cited
    assert int(cited[1]) == int(cited[2]) > 5
    charts = sorted((folder / "demo" / "charts").iterdir())
    assert [chart.stem for chart in charts] == sorted(part.split()[0] for part in analysed[1].split(", "))
    for chart in charts:
        with Image.open(chart) as picture:
            assert (picture.format, picture.size) == ("PNG", (800, 450))
    assert "none left running" in output
    left = [each for each in psutil.process_iter(["cmdline"]) if str(folder) in " ".join(each.info["cmdline"] or [])]
    assert left == []
