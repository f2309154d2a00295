"""`desk screen`, `research` and `runs` as people and scripts use them, on real workers."""

from __future__ import annotations

import re
import signal
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path

import pytest
from sqlmodel import select

from chordesk.agents.desk_roles import known_lenses
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.tables.orders import Position
from chordesk.models.tables.runs import Run
from chordesk.tasks.cli import start
from chordesk.tools.ledger import ensure_account
from tests.builders import MARKET_NOW
from tests.fakes.responses import Status
from tests.patience import PATIENCE
from tests.tasks.workflows.conftest import Floor, plain
from tests.tasks.workflows.scripted import action

MODEL = "endpoint:gpt-5.5"


def test_a_dry_run_prints_the_forecast_and_starts_nothing(floor: Floor) -> None:
    with floor.store.read() as session:
        before = session.exec(select(Run.id)).all()
    for command in (("research", "IBM", "MMM"), ("screen", "--universe", "IBM"), ("analyze", "IBM")):
        done = floor.desk(*command, "--dry-run", DESK_REDIS_URL="redis://127.0.0.1:1/0")  # where none listens
        assert done.code == 0
        assert done.out.startswith("forecast: at most ")
        assert done.out.count("\n") == 1
    with floor.store.read() as session:
        assert session.exec(select(Run.id)).all() == before


def test_a_screen_of_a_file_with_chosen_lenses(floor: Floor, tmp_path: Path) -> None:
    """Two lenses, three names of a file, at most two candidates; a quick rejection ends one of them."""
    listed = tmp_path / "names.txt"
    listed.write_text("IBM\nMMM\nGE\n", encoding="utf-8")
    floor.model.hits = {"technical": ["IBM", "MMM"], "catalyst": ["MMM", "IBM", "GE"]}
    floor.model.stances = {("MMM", "quick"): "REJECT"}
    floor.model.actions = [action("IBM"), action("MMM", "watch"), action("GE"), action("IBM", "close", side="sell")]
    found = floor.json("screen", "--universe", str(listed), "--lens", "technical,catalyst", "--max", "2")
    assert (found["kind"], found["state"], found["model"]) == ("screen", "done", MODEL)
    ibm, mmm = found["candidates"]
    assert (ibm["symbol"], ibm["origin"], ibm["screeners"]) == ("IBM", "screen", ["catalyst", "technical"])
    assert (ibm["confidence"], ibm["verdict"], ibm["verdict_confidence"]) == ("high", "BUY", "medium")
    assert ibm["missing"] == ["fundamentals: no_data (no data from company_get, news_list)"]
    assert (sum(ibm["tools"].values()), ibm["tokens"]) == (12, 800), "8 that code asks first"
    assert (mmm["symbol"], mmm["verdict"], mmm["tools"], mmm["tokens"]) == ("MMM", "PASS", {"signals_get": 2}, 200)
    rows = [(row["symbol"], row["group"], row["state"]) for row in found["actions"]]
    assert rows == [
        ("IBM", "entry", "previewed"), ("MMM", "monitor", None), ("GE", "entry", "denied"), ("IBM", "exit", "denied"),
    ]  # fmt: skip
    assert found["actions"][0]["payload_hash"]
    assert "GE" in found["actions"][2]["suppressed"]
    assert found["portfolio"] is None
    shown = floor.desk("runs", "show", found["run_id"]).out
    assert _cells(shown)[0] == ["Symbol", "Screeners", "Hit conf.", "Verdict", "Conf.", "Tools", "Tokens"]
    assert _cells(shown)[1] == ["IBM", "catalyst, technical", "high", "BUY", "medium", "12", "800"]
    assert f"Verdicts, model {MODEL}" in shown
    assert "missing fundamentals: no_data (no data from company_get, news_list): 1 of 2 verdicts" in shown
    assert f"Trader ({MODEL}): completed." in shown
    entry, exits, monitor = (shown.index(f"\n{title}\n") for title in ("Entry", "Exit", "Monitor"))
    assert entry < exits < monitor
    assert re.search(r"GE +open .*denied\n +suppressed: .*GE", shown[entry:exits])
    assert re.search(r"IBM +close .*denied\n +suppressed: ", shown[exits:monitor])
    assert "live trading is off" in shown


def _cells(shown: str) -> list[list[str]]:
    """Return the rows of the table of candidates, with its header."""
    lines = shown[re.search(r"^Symbol +Screeners", shown, re.M).start() :].splitlines()  # type: ignore[union-attr]
    rows = [re.split(r" {2,}", line.strip()) for line in lines]
    return list(takewhile(lambda row: len(row) == len(rows[0]), rows))


def test_a_held_contract_is_researched_as_its_share_in_a_screen(floor: Floor) -> None:
    with floor.store.session() as session:
        ensure_account(session, "paper", 100_000.0)
        for symbol, quantity in (("GE100918P00015000", -1), ("GE100918P00014000", -1), ("IBM100918P00110000", -1)):
            session.add(
                Position(account="paper", symbol=symbol, quantity=quantity, average_cost=0.5, filled_at=MARKET_NOW)
            )
    floor.model.hits = {"technical": ["IBM"]}
    found = floor.json("screen", "--universe", "IBM,MMM", "--lens", "technical")
    assert [(row["symbol"], row["origin"], row["verdict"]) for row in found["candidates"]] == [
        ("IBM", "screen", "BUY"), ("GE", "position", "BUY"),
    ]  # fmt: skip


def test_a_run_in_which_all_lenses_fail_ends_with_1(floor: Floor) -> None:
    floor.model.instead = {"screener_technical": Status(401)}
    done = floor.desk("screen", "--universe", "IBM", "--lens", "technical", "--json")
    assert (done.code, done.json["state"]) == (1, "failed")
    assert done.json["notes"][0].startswith("lens technical: failed: unauthorized")
    shown = floor.desk("runs", "show", done.json["run_id"])
    assert shown.code == 0
    assert "screen failed" in shown.out
    assert shown.out.startswith("lens technical: failed: unauthorized"), "the reason comes first"


def test_ctrl_c_leaves_the_run_to_the_workers(floor: Floor) -> None:
    floor.served.latency = 3.0
    process = floor.popen("research", "IBM")
    assert process.stdout is not None
    process.stdout.readline()
    run_id = process.stdout.readline().split()[1]
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    floor.served.latency = 0.0
    assert process.returncode == 130
    assert err == f"the run continues; see it with: desk runs show {run_id}\n"
    assert floor.ended(run_id) == "done"


Wrong = tuple[tuple[str, ...], dict[str, str], str, str]
AWAY = {"DESK_REDIS_URL": "redis://127.0.0.1:1/0", "DESK_MESSAGE_KEY": "0123456789abcdef" * 2}
WRONG: list[Wrong] = [
    (("research", "NOSUCH"), {}, "does not carry NOSUCH", "leave them out"),
    (("screen", "--lens", "magic"), {}, "'magic' is not a lens", "technical, fundamental, catalyst, options"),
    (("screen", "--universe", "none.txt"), {}, "'none.txt' cannot be read", "one symbol a line"),
    (("runs", "show", "zzz"), {}, "there is no run 'zzz'", "desk runs list"),
    (("trade", "zzz"), {}, "there is no run 'zzz'", "desk runs list"),
    (
        ("research", "IBM"),
        AWAY,
        "127.0.0.1:1/0 does not answer",
        "desk up",
    ),
    (("research", "IBM"), {"DESK_DATABASE_URL": "sqlite:///{home}/new.db"}, "no desk has run on", "desk db upgrade"),
]


@pytest.mark.parametrize("named", [["magic"], [","], [""], ["technical,magic"]])
def test_an_unknown_lens_is_named(named: list[str]) -> None:
    with pytest.raises(UsageError, match="is not a lens"):
        known_lenses(named[0].split(","), Settings())


def test_an_empty_universe_is_not_taken_for_the_usual_one() -> None:
    with pytest.raises(UsageError, match="--universe is empty"):
        start.screen(universe=" ")


def test_impossible_input_is_refused_in_a_line_with_a_remedy(floor: Floor, tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        for problem in pool.map(lambda wrong: _problem(floor, tmp_path, wrong), WRONG):
            assert problem == ""


def _problem(floor: Floor, home: Path, wrong: Wrong) -> str:
    """Return the fault of this command's result; empty when all is well."""
    arguments, environ, error, remedy = wrong
    done = floor.desk(*arguments, "--json", **{name: value.format(home=home) for name, value in environ.items()})
    lines = done.err.splitlines()
    well = (
        (done.code, done.out, len(lines)) == (2, "", 2)
        and lines[0].startswith("error: ")
        and error in lines[0]
        and lines[1].startswith("remedy: ")
        and remedy in lines[1]
    )
    return "" if well else f"{arguments} {environ}: {done}"


def test_the_live_view_on_a_terminal(floor: Floor) -> None:
    floor.served.latency = 0.3
    floor.model.hits = {"technical": ["IBM", "MMM"], "catalyst": ["IBM"], "options": ["IBM"], "fundamental": ["IBM"]}
    floor.model.summary = "It is [bold]steady[/] " + "and it is long " * 60
    floor.model.actions = [action("IBM", reasoning="Because of the trend. \x1b[31m" + "word " * 200)]
    code, drawn = floor.terminal("screen", "--universe", "IBM,MMM", "--yes")
    assert code == 0
    assert "\x1b[" in drawn
    text = plain(drawn)
    drawn_lines = [line for line in text.splitlines() if not line.startswith("forecast: ")]  # before the view, as it is
    assert [line for line in drawn_lines if len(line) > 80] == []
    live, closing = text[: text.rindex("Verdicts, model")], text[text.rindex("Verdicts, model") :]
    for part in ("screen ", "reports ", "verdicts ", "trader ", "candidates ", "tokens ", "elapsed ", MODEL):
        assert part in live
    assert re.search(r"[1-9]\d* in flight", live)
    assert re.search(r"candidates +quick [12]", live)
    assert re.search(r"research [12]", live)
    assert "[31m" in closing, "the model's own escape is shown as text"
    assert _cells(closing)[0] == ["Symbol", "Screeners", "Hit conf.", "Verdict", "Conf.", "Tools", "Tokens"]
    assert closing.count("…") == 2, "the trader's words and the action's are cut"
    assert "[bold]steady[/]" in closing
