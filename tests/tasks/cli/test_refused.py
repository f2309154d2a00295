"""What a command cannot do: one error with the value and the remedy, and nothing is opened, written or repeated.

In this process, on a home with a database and a chain of runs; `tests/tasks/cli/test_commands.py` sees such errors as a
person does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError
from chordesk.tasks.cli.root import build
from tests.parts import has_command
from tests.tasks.cli.test_shown import Books

ARM = "arm --broker alpaca-live --max-notional 25000 --max-orders 5 --symbols aapl,MSFT"
DAYS = "backtest --from 2010-03-01 --to 2010-03-05"
PHONE = {"DESK_NOTIFY_CHANNELS": "phone=json://x"}
SLACK, NOSUCH = ({"DESK_NOTIFY_CHANNELS": f"phone={name}://hunter2"} for name in ("slack", "nosuch"))

# Command, what its error names, what its remedy does; with _ for a space in an argument.
CASES: list[tuple[str, str, str]] = [
    ("graph", "no MODULE:FACTORY is given", ""),
    ("graph a:b", "no --input is given", ""),
    ("graph a:b --resume 0", "--resume and --history go with no factory", ""),
    ("graph a:b --input {", "--input is no JSON", ""),
    ("graph a:b --input [1]", "--input is no object but [1]", ""),
    ("graph a:b --input @none.json", "none.json cannot be read: ", ""),
    ("graph a:b --input @list.json", "list.json is no object but [1, 2]", ""),
    ("graph a:b --input @bytes.json", "bytes.json cannot be read: ", ""),
    ("tradingagents IBM --analysts market,stars", "--analysts has 'stars'", ""),
    ("tradingagents IBM --analysts _,_", "--analysts names none", ""),
    ("tradingagents IBM --depth 0", "--depth 0 is not from 1 to 10", ""),
    ("tradingagents IBM --date soon", "--date 'soon' is no day", ""),
    ("tradingagents IBM", "TradingAgents is not installed", ""),
    ("backtest", "--from is missing", ""),
    ("backtest --from 2010-03-01", "--to is missing", ""),
    ("backtest --from March --to 2010-03-05", "--from 'March' is no day", ""),
    (f"{DAYS} --rounds 3", "--rounds 3", ""),
    (f"{DAYS} --memory some", "--memory 'some' is neither on nor off", ""),
    (f"{DAYS} --universe _", "--universe is empty", ""),
    (f"{DAYS} --resume abc", "--resume goes on with a backtest as it is", ""),
    ("benchmark stockbench --from . --rounds 2", "stockbench has no use for --questions, --seed and --rounds", "play"),
    ("benchmark forecastbench --from . --no-play --seed 1", "--no-play asks none", "drop one"),
    (
        "experiment --ablate lenses --arm a: --from 2010-03-01 --to 2010-03-05",
        "--arm and --ablate were given",
        "one of",
    ),
    ("report x1 --day 2010-08-12", "RUN and --day together", "one of RUN"),
    ("report x1", "there is no run 'x1'", "desk runs list"),
    ("report --day 2010-02-30", "'2010-02-30' is no day", "YYYY-MM-DD"),
    ("report --symbol a*b", "'A*B' is no symbol", "1 to 20 of A-Z"),
    ("report --symbol ZZZZ", "no run of the account paper has seen ZZZZ", "there are"),
    ("report --symbol ACME --format pdf", "'pdf' is no format", "md, html, json"),
    ("report --symbol ACME --out nosuch://x/y", "nosuch://x/y cannot be used", "fsspec knows"),
    ("report --symbol ACME --out list.json/x.md", "cannot be written", "another place"),
    ("orders show ffff-none", "there is no order 'ffff-none'", "desk orders list"),
    ("runs show zzz", "there is no run 'zzz'", "desk runs list"),
    ("scores --voice dee", "dee", "judged"),
    ("scores --voice ada --tool momentum", "--voice and --tool were given together", "one of them"),
    ("calibrate --min-n 5", "min-n", ""),
    (f"{ARM} --broker paper", "moves no real money", ""),
    (f"{ARM} --broker alpaca-paper", "moves no real money", ""),
    (f"{ARM} --max-notional lots", "'lots' is no amount", ""),
    (f"{ARM} --max-notional -1", "'-1' is no amount", ""),
    (f"{ARM} --max-notional inf", "'inf' is no amount", ""),
    (f"{ARM} --symbols two_words", "is no symbol", ""),
    (f"{ARM} --max-orders 0", "max-orders", ""),
    (f"{ARM} --hours 169", "hours", ""),
    ("notify test", "no channel of notifications is set", "set DESK_NOTIFY_CHANNELS to NAME=URL"),
    ("data check", "no folder", ""),
    ("data check nowhere", "nowhere", ""),
    ("watch --since 3", "--since goes with a run", "name the run"),
    ("stop", "name a run, or give --all", "desk runs list"),
    ("stop --all --voice weaver", "--voice goes with one run", ""),
    ("questions add Rain? --closes 2010-08-13 --opens 2010-08-14", "it would close at 2010-08-13 16:00 EDT, and", ""),
    ("questions add Rain? --closes 2010-08-11", "has passed: it is 2010-08-12 15:55 EDT", ""),
    ("questions add Rain? --closes soon", "'soon' is no time", ""),
    ("questions show ffff", "no question 'ffff'", ""),
    ("questions resolve --outcome yes --why so", "--outcome was given without a question", ""),
    ("questions resolve --as-of 2011-01-03", "--as-of 2011-01-03 is outside the replay's data", ""),
    ("questions resolve --as-of 03.03.2010", "'03.03.2010' is no day", ""),
    ("questions import kalshi --term rain --id K", "both of --term and --id", ""),
    ("questions import kalshi", "neither of --term and --id", ""),
    ("questions import nasdaq --term rain", "'nasdaq' is no venue", ""),
]
WITH_SETTINGS: list[tuple[str, dict[str, str], str, str]] = [
    ("notify test mail", PHONE, "there is no channel 'mail'", "the channels are: phone"),
    ("notify run", NOSUCH, "the channel phone: apprise cannot read its nosuch:// URL", "in DESK_NOTIFY_CHANNELS"),
    ("notify run", SLACK, "the channel phone: apprise cannot read its slack:// URL", "in DESK_NOTIFY_CHANNELS"),
    ("notify run", {**PHONE, "DESK_NOTIFY_KINDS": "mail=halt"}, "DESK_NOTIFY_KINDS='mail=halt': there is no", "phone"),
    ("notify run", {**PHONE, "DESK_NOTIFY_QUIET": "mail=22:00-07:00"}, "there is no channel 'mail'", "phone"),
    ("notify run", {**PHONE, "DESK_NOTIFY_QUIET": "22-7"}, "are no hours", "desk config"),
    ("questions resolve --as-of 2010-03-15", {"DESK_MARKET": "yahoo"}, "DESK_MARKET=yahoo is in real time", ""),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("home")
    Books(made).store.close()
    (made / "list.json").write_text("[1, 2]", encoding="utf-8")
    (made / "bytes.json").write_bytes(b"\xff\xfe")
    for name in (".env", "desk.toml"):
        (made / name).touch()  # the search for settings ends here
    return made


def rows(home: Path) -> list[int]:
    store = Store(f"sqlite:///{home / 'desk.db'}")
    with store.read() as session:
        from chordesk.models.database.store import every_table

        found = [len(session.execute(table.select()).all()) for table in every_table().values()]
    store.close()
    return found


@pytest.mark.parametrize(
    ("command", "environ", "error", "remedy"),
    [
        row
        for row in (*((command, {}, error, remedy) for command, error, remedy in CASES), *WITH_SETTINGS)
        if has_command(row[0])
    ],
)
def test_an_error_names_the_value_and_the_remedy_and_changes_nothing(
    command: str, environ: dict[str, str], error: str, remedy: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in os.environ:
        if name.startswith(("DESK_", "TRADER_", "AUTONOMOUS_")):
            monkeypatch.delenv(name)
    for name, value in {"DESK_HOME": str(home), **environ}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home)
    monkeypatch.setitem(sys.modules, "tradingagents", None)  # Python's own mark of a module that is not there
    before = rows(home)
    done = CliRunner().invoke(build(), [part.replace("_", " ") for part in command.split()])
    if isinstance(done.exception, DeskError):
        text, help_ = str(done.exception.args[0]), str(done.exception.remedy)
        assert help_
    else:
        text, help_ = done.output, done.output
        assert done.exit_code == 2, done.output
    assert error in text
    assert remedy in help_
    assert "hunter2" not in text + help_
    assert rows(home) == before
