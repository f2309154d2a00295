"""A whole screen with a model of an endpoint, taken to a desk that has none, and played there twice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlmodel import col, select
from typer.testing import CliRunner

from chordesk.agents.measure.cassettes import KeptTurn, Shelf
from chordesk.agents.rulebook.cases import Call as RuleCall
from chordesk.agents.rulebook.cases import case_of, fill
from chordesk.agents.rulebook.policies import POLICIES
from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Report, Run, ToolCall, Turn, Verdict
from chordesk.tasks.cli.root import build
from chordesk.tasks.measure.cassette_files import export, take
from chordesk.tasks.workflows.screen import open_screen
from tests.databases import make_database
from tests.fakes.responses import Call, FakeResponses, Reply, Text
from tests.stack import Processes, processes, wait_for

SYMBOLS = "AAPL,IBM,KO"
_OF_A_RUN = re.compile(r"[0-9a-f]{32}|[0-9a-f-]{36}|\b[a-z]{4}-[a-z]\b|\d{4}-\d\d-\d\dT[\d:]+\.\d+[+\d:]*")
# The moments and ids of a run are its own; a played turn says that it was, has no thread and cost nothing.
OWN = {"seconds", "way", "cost_usd", "thread_reason", "kept"}


def rules(body: dict[str, Any]) -> Reply:
    case = case_of(body.get("instructions"), body["input"], body.get("tools"))
    move = POLICIES[case.role](case)
    if isinstance(move, RuleCall):
        return Call(move.tool, orjson.dumps(move.arguments).decode())
    return Text(orjson.dumps(fill(body["text"]["format"]["schema"], move)).decode())


@contextmanager
def screened(file: Path | None = None, **environ: str) -> Iterator[tuple[Processes, Store]]:
    with processes(DESK_PROVIDER="endpoint", DESK_MODEL="big-1", **environ) as desk:
        store = Store(desk.settings.database)
        if file is not None:
            take(store, desk.settings, file)
        desk.workers("research", "ops", "trade", concurrency=4)
        run = open_screen(desk.app, SYMBOLS)
        wait_for(lambda: _run(store, run.id).state in RUN_FINAL, "the screen has ended")
        yield desk, store
        store.close()


def _run(store: Store, run_id: str) -> Run:
    with store.read() as session:
        return session.get_one(Run, run_id)


def rows(store: Store) -> dict[str, list[str]]:
    """The rows of a desk's only run, but for ids and times."""
    with store.read() as session:
        return {
            table.__name__: sorted(_plain(row.model_dump()) for row in session.exec(select(table)))
            for table in (Turn, ToolCall, Report, Verdict, Order)
        }


def _plain(row: dict[str, Any]) -> str:
    ids = {name for name in row if name == "id" or name.endswith(("_id", "_at"))}
    return _OF_A_RUN.sub(
        "*", json.dumps({name: row[name] for name in row.keys() - ids - OWN}, sort_keys=True, default=str)
    )


def test_a_screen_of_an_endpoint_s_model_is_played_without_it(tmp_path: Path) -> None:
    file = tmp_path / "run.cassette"
    with (
        FakeResponses(rules) as model,
        screened(DESK_PROVIDER_URL=model.url, DESK_CASSETTES="record") as (desk, store),
    ):
        recorded = rows(store)
        head, size = export(store, desk.settings, file, None)
        assert len(recorded["Turn"]) == head.turns > 3
        assert size < 100_000
        asked = len(model.requests)
        nowhere = {"DESK_CODEX_BINARY": str(tmp_path / "none"), "DESK_CASSETTES": "replay"}
        for _ in range(2):
            with screened(file, **nowhere) as (_desk, replayed):
                assert rows(replayed) == recorded
                with replayed.read() as session:
                    ways = session.exec(select(Turn.way).where(col(Turn.way).contains("from the cassette"))).all()
                assert len(ways) == head.turns
        assert len(model.requests) == asked


@pytest.fixture
def shelved(tmp_path: Path) -> tuple[Store, Any, Path]:
    from chordesk.models.settings import Settings
    from chordesk.models.tables.columns import utcnow

    settings = Settings(home=tmp_path)
    make_database(settings.database)
    store = Store(settings.database)
    turn = KeptTurn(
        run_id="r", role="quick", subject="IBM", runtime="codex", model="big-1", kept_at=utcnow(), part="0" * 64,
        opening={"text": "Look."}, calls=[], end={"text": "{}"},
    )  # fmt: skip
    Shelf(store).keep([turn], {})
    file = tmp_path / "own.cassette"
    export(store, settings, file, None)
    return store, settings, file


def test_taking_a_file_may_be_the_first_command_of_a_desk(
    shelved: tuple[Store, Any, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_HOME", str(tmp_path / "new"))
    done = CliRunner().invoke(build(), ["cassette", "import", str(shelved[2])])
    assert "quick has another prompt" in str(done.exception), "it was read, on a database that was not there"
    assert (tmp_path / "new" / "desk.db").exists()


def test_a_file_that_cannot_be_played_here_is_refused_by_name(shelved: tuple[Store, Any, Path]) -> None:
    store, settings, file = shelved
    with pytest.raises(UsageError, match="quick has another prompt and tools and form of its answer here"):
        take(store, settings, file)
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"{}", whole[:40] + b"\x00" + whole[41:]):
        file.write_bytes(damaged)
        with pytest.raises(UsageError, match="is no cassette, or a damaged one"):
            take(store, settings, file)
    with pytest.raises(UsageError, match="cannot be read"):
        take(store, settings, file.with_name("none"))
