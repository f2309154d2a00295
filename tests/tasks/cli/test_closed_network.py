"""Every command with the network closed: none of them reaches a broker that is not paper."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from sqlmodel import col, select
from typer.main import get_command

from chordesk.models.database.store import Store
from chordesk.models.settings.running_desk import is_backtest
from chordesk.models.settings.sources import load_settings
from chordesk.models.tables.board import Episode, Question
from chordesk.models.tables.orders import Account, Fill, Order
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import KeptThread
from chordesk.tasks.cli.root import build
from tests import zygote
from tests.constants import constants
from tests.parts import HERE, has_command
from tests.patience import PATIENCE
from tests.stack import wait_for
from tests.tasks.cli.closed import Closed, make_closed
from tests.tasks.cli.running import environment

# The ids of the walk's own run, of an order and of a kept thread of it, of an episode and of a question.
RUN, ORDER, THREAD, EPISODE, QUESTION, PROPOSAL = (
    "{run}", "{order}", "{thread}", "{episode}", "{question}", "{proposal}",
)  # fmt: skip
LIMITS = ("--broker", "alpaca-live", "--max-notional", "1000000", "--max-orders", "100", "--symbols", "*")
UP, UP_SECONDS = "Ctrl-C stops all", 600.0  # its last line once all answer, and its own limit for that
PING = ("ping", "trade", "--name", "trade")  # as `desk up` names it

# In this order, on a desk that is up. The processes of a desk are started by `desk up` itself.
WHOLE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("db upgrade", ()),
    ("db current", ()),
    ("config", ()),
    ("setup", ("--provider", "rulebook", "--yes", "--env", "setup.env")),
    ("arm", LIMITS),
    ("mandate", ()),
    ("risk codes", ()),
    ("doctor", ()),
    ("screen", ("--universe", "AAPL,IBM,GE,F,XOM,JPM,WMT,KO", "--lens", "technical", "--max", "4")),
    ("research", ("IBM", "KO")),
    ("analyze", ("IBM", "--strategy", "equity")),
    ("episode", ("IBM", "KO", "--rounds", "1")),
    ("board", (EPISODE,)),
    ("report", (EPISODE, "--format", "html")),
    ("data import", ("bars.csv", "--to", "own", "--yes")),
    ("data check", ("own",)),
    ("trade", (RUN,)),
    ("scores", ()),
    ("calibrate", ()),
    ("backtest", ("--from", "2010-08-09", "--to", "2010-08-10", "--universe", "IBM,KO,GE,F")),
    (
        "experiment",
        (
            "--arm",
            "a:",
            "--arm",
            "b: DESK_LENSES=technical",
            "--from",
            "2010-08-09",
            "--to",
            "2010-08-10",
            "--universe",
            "IBM,KO",
        ),
    ),
    ("cassette list", ()),
    ("cassette export", ("all.cassette",)),
    ("cassette import", ("all.cassette",)),
    ("cassette delete", ("--all",)),
    ("benchmark", ("stockbench", "--from", ".", "--no-play")),
    ("graph", ("desk_graphs:build", "--input", "{}")),
    ("graph", ("chordesk.agents.graphs.langchain.example:build", "--input", '{"symbol": "IBM"}')),
    ("tradingagents", ("IBM",)),
    ("page", ("--url", "http://127.0.0.1:1", "--no-open")),
    ("notify channels", ()),
    ("notify list", ()),
    ("notify test", ()),
    ("status", ()),
    ("runs list", ()),
    ("changes", ()),
    ("ask", ("status",)),
    ("ask", ("halt",)),
    ("proposals list", ("--all",)),
    ("proposals show", (PROPOSAL,)),
    ("proposals confirm", (PROPOSAL, "--expect", "0" * 12)),
    ("proposals dismiss", (PROPOSAL,)),
    ("runs show", (RUN,)),
    ("runs adopt", (RUN, "--model", "rulebook")),
    ("runs leaks", (RUN,)),
    ("watch", (RUN,)),
    ("schedule list", ("--forecast",)),
    ("schedule add", ("noon", "12:00", "--exchange", "london")),
    ("schedule set", ("noon", "12:30", "--days", "week-last", "--set", "most=5")),
    ("schedule off", ("noon",)),
    ("schedule on", ("noon",)),
    ("schedule remove", ("noon",)),
    ("lens list", ()),
    ("lens show", ("technical",)),
    ("lens check", ("technical",)),
    ("lens diff", ("technical",)),
    ("lens new", ("Names that rise", "--where", "momentum20 > 0")),
    ("lens test", ("technical", "--every", "60")),
    ("threads list", ()),
    ("threads show", (THREAD,)),
    ("threads fork", (THREAD, "--before-turn", "2")),
    ("threads ask", (THREAD, "What of it?")),
    ("threads reset", (THREAD,)),
    ("gc", ("--dry-run",)),
    ("gc", ()),
    ("gc", ("--sizes",)),
    ("backup", ("copy",)),
    ("restore", ("copy", "--into", "restored")),
    ("questions add", ("Will it rain?", "--closes", "2010-08-20")),
    ("questions list", ()),
    ("questions show", (QUESTION,)),
    ("questions import", ("manifold", "--term", "rain")),
    ("questions export", ("questions.csv",)),
    ("questions import", ("questions.csv",)),
    ("questions resolve", ()),
    ("questions pairs", ("--suggest", "--prices")),
    ("questions pair", (QUESTION, QUESTION, "--by", "Ada")),
    ("questions unpair", (QUESTION, QUESTION, "--by", "Ada")),
    ("questions positions", ()),
    ("orders list", ()),
    ("orders show", (ORDER,)),
    ("orders whole", (ORDER,)),
    ("holdings import", ("held.csv", "--account", "savings", "--as-of", "2010-08-09", "--yes")),
    ("holdings refresh", ()),
    ("holdings link", (".",)),
    ("holdings list", ()),
    ("holdings show", ()),
    ("holdings map", ("Acme", "IBM")),
    ("holdings what-if", ("IBM", "1000")),
    ("holdings forget", ("savings",)),
    ("watchlist add", ("tech", "IBM", "AAPL")),
    ("watchlist list", ()),
    ("alerts add", ("dip", "price below 100", "IBM", "--do", "research")),
    ("alerts list", ()),
    ("alerts show", ("dip",)),
    ("alerts test", ("dip", "--from", "2010-06-01")),
    ("alerts history", ()),
    ("alerts off", ("dip",)),
    ("alerts on", ("dip",)),
    ("alerts remove", ("dip",)),
    ("watchlist remove", ("tech",)),
    ("approvals", ()),
    ("approvals show", (ORDER,)),
    ("approve", (ORDER,)),
    ("deny", (ORDER, "--why", "a walk")),
    ("reconcile", ("--adopt",)),
    ("close", ("IBM", "--no-wait")),
    ("halt", ("--flatten", "--yes")),
    ("resume", ()),
    ("mcp", ()),
    ("mcp", ("--run", RUN)),
    ("chat pair", ("ada", "--scope", "decide,halt", "--quiet", "22:00-07:00", "--wake")),
    ("chat list", ()),
    ("chat revoke", ("ada",)),
    ("chat mute", ("ada", "2h")),
    ("chat morning", ("ada", "08:00")),
    ("tokens add", ("screens", "--scope", "read")),
    ("tokens list", ()),
    ("tokens revoke", ("screens",)),
    ("audit verify", ()),
    ("audit accept", ("1", "--reason", "a walk")),
    ("unpark", ()),
    ("audit show", ("--order", ORDER)),
    ("disarm", ()),
    ("ping", PING[1:]),
    ("stop", ("--all",)),
    ("db renew", ()),
)
WALK = [
    (name, given if "board" in HERE else tuple(RUN if one == EPISODE else one for one in given))
    for name, given in WHOLE
    if has_command(name)
]
BY_UP = {"up": "up", "worker": "worker trade", "beat": "beat", "flower": "flower", "rulebook": "rulebook", "api": "api"}
BY_UP |= {"notify run": "notify run"} if "notifications" in HERE else {}
BY_DEMO = {"demo": "demo --live"} if "samples" in HERE else {}
BY_CODEX = {"login", "logout"}  # they run its binary, on the login of the person who runs the tests
# The keys are poison: a use of them shows.
SWITCHED_ON = {"TRADER_LIVE": "1", "ALPACA_API_KEY": "poison-key", "ALPACA_SECRET_KEY": "poison-secret"}


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(command, click.Group) or hasattr(command, "commands"):
        for name, each in command.commands.items():
            yield from leaves(each, (*path, name))
    else:
        yield " ".join(path)


def test_the_walk_leaves_no_command_out() -> None:
    walked = {name for name, _ in WALK} | set(BY_UP) | set(BY_DEMO) | BY_CODEX
    assert walked - {"approvals"} == set(leaves(get_command(build())))


@dataclass(slots=True)
class Walker:
    closed: Closed
    home: Path
    environ: dict[str, str]

    def command(self, *arguments: str) -> list[str]:
        return [str(self.closed.python), "-P", "-m", "chordesk.tasks.cli.main", *arguments]

    def __call__(self, *arguments: str, seconds: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        return zygote.run(arguments, self.environ, self.home, seconds, str(self.closed.python))

    @property
    def store(self) -> Store:
        return Store(load_settings(self.environ, self.home).database)

    def fill_in(self, argument: str) -> str:
        """An id of the walk's own for its placeholder."""
        if argument == PROPOSAL:
            return str(json.loads(self("proposals", "list", "--all", "--json").stdout)[0]["id"])
        with contextlib.closing(self.store) as store, store.read() as session:
            if argument == RUN:
                return session.exec(select(Run.id).order_by(col(Run.created_at)).limit(1)).one()
            if argument == EPISODE:
                return session.exec(select(Episode.run_id)).one()
            if argument == ORDER:
                return session.exec(select(Order.id).order_by(col(Order.created_at)).limit(1)).one()
            if argument == QUESTION:
                return session.exec(select(Question.id).limit(1)).one()
            if argument == THREAD:
                return session.exec(select(KeptThread.thread_id).limit(1)).one()
        return argument

    def _said(self) -> str:
        return (self.home / "up.log").read_text(encoding="utf-8")

    @contextlib.contextmanager
    def up(self) -> Iterator[None]:
        with (self.home / "up.log").open("wb") as log:
            command = self.command("up", "--api", "--flower")
            process = subprocess.Popen(command, env=self.environ, cwd=self.home, stdout=log, stderr=log)
        try:
            wait_for(lambda: process.poll() is not None or UP in self._said(), "the desk is up", UP_SECONDS)
            assert self(*PING).returncode == 0, self._said()
            yield
        finally:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)


@pytest.fixture
def closed(tmp_path: Path) -> Closed:
    return make_closed(tmp_path)


def walker(closed: Closed, home: Path, **environ: str) -> Walker:
    # A venue of event markets is no broker: where none listens it fails, on loopback.
    venue = constants(VENUES="http://127.0.0.1:9")
    notified = {"DESK_NOTIFY_CHANNELS": "nowhere=json://127.0.0.1:9"} if "notifications" in HERE else {}
    own = {"DESK_MANDATE_KEY_FILE": str(home / "mandate.key"), **venue, **notified, **environ}
    return Walker(closed, home, environment(home, **own))


def test_the_network_is_closed_and_watched(closed: Closed, tmp_path: Path) -> None:
    """Premises of the walk: an address outside is refused and written down, loopback is not."""
    code = (
        "import socket, subprocess, sys\n"
        "for host in ('192.0.2.1', 'paper-api.alpaca.markets', '127.0.0.1'):\n"
        "    try:\n"
        "        socket.create_connection((host, 9), 1)\n"
        "    except OSError as error:\n"
        "        print(error)\n"
        "try:\n"
        "    import alpaca\n"
        "except ImportError:\n"
        "    pass\n"
    )
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}], env={{}})"
    subprocess.run([closed.python, "-c", nested], env={}, check=True, timeout=PATIENCE)
    assert closed.lines("reached") == ["socket.getaddrinfo 192.0.2.1", "socket.getaddrinfo paper-api.alpaca.markets"]
    assert "alpaca" in closed.lines("import")
    assert len(closed.lines("began")) == 2


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_command_reaches_a_broker_that_is_not_paper(closed: Closed, tmp_path: Path) -> None:
    desk = walker(closed, tmp_path / "home", **SWITCHED_ON)
    desk.home.mkdir(exist_ok=True)
    (desk.home / "bars.csv").write_text("symbol,date,close\nIBM,2020-01-02,135.42\n", encoding="utf-8")
    (desk.home / "held.csv").write_text("symbol,name,quantity\nIBM,,10\n,Acme,5\n", encoding="utf-8")
    with desk.up():
        for name, arguments in WALK:
            done = desk(*name.split(), *(desk.fill_in(argument) for argument in arguments))
            assert done.returncode in (0, 1, 2), (name, done.stderr)
            assert "Traceback" not in done.stderr, (name, done.stderr)
    began = closed.lines("began")
    for shown in BY_UP.values():
        assert any(f"chordesk.tasks.cli.main {shown}" in line for line in began), shown
    assert closed.lines("reached") == []
    assert closed.lines("import") == []
    assert_all_on_paper(desk)


def assert_all_on_paper(desk: Walker) -> None:
    """Every order, fill and account is paper's, and there are some. Those of a backtest are on accounts of its own."""
    with contextlib.closing(desk.store) as store, store.read() as session:
        orders = [row for row in session.exec(select(Order)).all() if not is_backtest(row.account)]
        fills = [row for row in session.exec(select(Fill)).all() if not is_backtest(row.account)]
        accounts = {row.name for row in session.exec(select(Account)) if not is_backtest(row.name)}
    assert orders, "the trader recommended nothing, so nothing was tried"
    assert {row.account for row in (*orders, *fills)} == {"paper"}
    assert accounts == {"paper"}
    assert any(row.sent_at is not None for row in orders)
