"""A backtest that is played in the process of its command: it leaves what workers leave, and goes on wherever it was
interrupted."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import event, update
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select

from chordesk.models.database.store import Store, every_table
from chordesk.models.errors import UsageError
from chordesk.models.settings.running_desk import backtest_account
from chordesk.models.settings.sources import load_settings
from chordesk.models.shortages import Shortage
from chordesk.models.states import REUSED, RUN_FINAL, RunState, StepState
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runs import Attempt, BacktestSession, Run, Step, Verdict
from chordesk.tasks.measure.backtest import open_backtest, open_experiment, parsed, resume_backtest
from chordesk.tasks.measure.backtest_command import walking
from chordesk.tasks.measure.backtest_sessions import Day, Walk, session_row, settings_of_walk, trials_of
from chordesk.tasks.measure.experiment_view import experiment
from chordesk.tasks.measure.leaks import audits
from chordesk.tasks.measure.playing import Player
from chordesk.tasks.reading.run_details import outcome
from chordesk.tasks.reading.runs import backtest_rows, blocked, waits
from chordesk.tasks.worker.control import mark
from chordesk.tools.orders import halting
from tests import homes
from tests.databases import make_database
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, processes, wait_for
from tests.tasks.measure.walk.kit import FIRST, LAST, UNIVERSE, WalkingDesk, Walks, outline
from tests.tasks.workflows.step_table import undeclared_steps, undeclared_writes, writes_of_steps

# Ids, times of the clock on the wall, owners, and how often a message was sent.
OWN = re.compile(
    r"'this would be order \d+'|\b[a-z]{4}-[a-z]{1,2}\b|backtest-[0-9a-f]{12}|\b[0-9a-f]{32}\b|\b[0-9a-f]{64}\b"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
)
LEFT_OUT = re.compile(
    r"(^|_)id$|^(created|updated|started|finished|sent|processed|claimed|due|deadline|ended|occurred|opened|taken"
    r"|resolved)_at$|^(at|lease_until|owner|sends|booked|sequence|migrations|desk)$|^seconds$|_seconds$|^payload_hash$"
)
SECOND = dt.date(2010, 3, 2)
OF_PROCESSES = {"process", "sweep", "event_head", "identity"}


def rows_of(store: Store) -> dict[str, Counter[str]]:
    """Return all that a desk has, by table, without what differs from walk to walk; each event by itself."""
    found = {}
    with store.read() as session:
        for name, table in every_table().items():
            if name in OF_PROCESSES:
                continue
            rows = [dict(row._mapping) for row in session.connection().execute(select(table))]
            if name == "event_batch":
                rows = [{**one, "run_id": ""} for row in rows for one in json.loads(row["events"])]
            found[name] = Counter(map(_plain, rows))
    return found


def _plain(row: dict[str, Any]) -> str:
    return OWN.sub("#", str(_without_own(row)))


def _without_own(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_own(one) for key, one in sorted(value.items()) if not LEFT_OUT.search(key)}
    return [_without_own(one) for one in value] if isinstance(value, list) else value


@dataclass(slots=True)
class PlayingDesk(Walks):
    """A desk without Redis and without workers."""

    player: Player

    @property
    def store(self) -> Store:
        return self.player.app.desk.store

    def ended(self, run: Run) -> Run:
        self.player.add(run)
        while (row := self.run(run.id)).state not in RUN_FINAL:
            self.player.play(0.5)
        return row


@pytest.fixture
def playing() -> Iterator[PlayingDesk]:
    with homes.owned() as home:
        settings = load_settings({"DESK_HOME": str(home)}, home)
        make_database(settings.database)
        player = Player(settings)
        desk = PlayingDesk(player)
        with writes_of_steps() as written:
            yield desk
        assert undeclared_writes(written) == {}
        with desk.store.read() as session:
            assert undeclared_steps(session) == set()
        player.close()


@pytest.mark.long
@pytest.mark.parametrize(("memory", "sessions"), [("off", 30), ("on", 3)])
def test_all_tables_are_as_workers_leave_them(playing: PlayingDesk, memory: str, sessions: int) -> None:
    walk: dict[str, Any] = {"universe": "AAPL,KO", "memory": memory}
    with processes() as workers:
        workers.rulebook()
        workers.workers("all")
        days = [day for day in workers.app.desk.market.recorded() if day >= FIRST][:sessions]  # type: ignore[attr-defined]
        desk = WalkingDesk(workers)
        done = desk.ended(open_backtest(workers.app, days[0], days[-1], **walk).id)
        assert (done.state, done.summary["sessions"]) == (RunState.DONE, sessions)
        expected = rows_of(desk.store)
    done = playing.ended(open_backtest(playing.player.app, days[0], days[-1], **walk))
    assert (done.state, done.notes) == (RunState.DONE, [])
    found = rows_of(playing.store)
    assert found["fill"]
    for table, rows in expected.items():
        assert found[table] == rows, table


def test_reports_count_again_in_an_arm_that_says_so(playing: PlayingDesk) -> None:
    """One after another, since a session reads what the one before wrote; and not because the desk is set so."""
    app = playing.player.app
    wide = {"reuse": "near", "reuse_tolerance": 0.5}
    set_so = settings_of_walk(app.desk.settings.model_copy(update=wide), "off", 0, None)
    done = playing.ended(open_backtest(app, FIRST, LAST, universe="AAPL,KO", changes=wide))
    with playing.store.read() as session:
        statuses = {step.result.get("status") for step in session.exec(select(Step)).all()}
    assert (set_so.reuse, done.params["parallel"], REUSED in statuses) == ("off", False, True)


def test_what_is_played_here_waits_for_no_worker_and_what_was_left_names_it_once(playing: PlayingDesk) -> None:
    run = open_backtest(playing.player.app, FIRST, LAST, universe="AAPL,KO")
    playing.player.add(run)
    playing.player.play(0.1)
    long_ago = utcnow() - dt.timedelta(minutes=2)
    with playing.store.session() as session:
        ready = Step.state == StepState.READY.value
        assert session.execute(update(Step).where(ready).values(due_at=long_ago)).rowcount, "it is under way"
    with playing.store.read() as session:
        assert waits(session, session.get_one(Run, run.id)) == []
    with playing.store.session() as session:
        session.execute(update(Attempt).values(ended_at=long_ago))
    with playing.store.read() as session:
        found = [str(one) for one in waits(session, session.get_one(Run, run.id))]
    assert len(found) == 1
    assert found[0].count("step") == 1
    assert re.search(r"run \w+( and \d+ more)?, which waits? for a (free )?worker", found[0])


def test_a_backtest_that_nobody_can_serve_ends_with_the_reason(
    playing: PlayingDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_backtest(playing.player.app, FIRST, FIRST, universe="AAPL,KO")
    playing.player.add(run)
    with playing.store.session() as session:
        ready = (col(Step.run_id) == run.id, col(Step.state) == StepState.READY)
        session.execute(update(Step).where(*ready).values(kind="of_another_desk"))
    monkeypatch.setenv("DESK_FEATURES_OFF", "board")
    with pytest.raises(UsageError, match="a worker with the step of_another_desk, which is not known here") as raised:
        playing.player.play(60)
    assert "take board out of DESK_FEATURES_OFF" in raised.value.remedy
    with pytest.raises(UsageError, match="rounds 1, and the feature board is switched off here") as refused:
        open_backtest(playing.player.app, FIRST, FIRST, universe="AAPL,KO", rounds=1)
    assert "leave rounds as it is" in refused.value.remedy


def test_an_arm_under_a_mask_is_masked_here_too_and_decides_the_same(playing: PlayingDesk) -> None:
    app, arms = playing.player.app, [parsed("plain:"), parsed("masked: DESK_MASK=names,dates,levels")]
    plain, masked = map(playing.ended, open_experiment(app, arms, FIRST, FIRST, universe="AAPL,KO"))
    with playing.store.read() as session:
        found = audits(session, app.desk, masked)
        with pytest.raises(UsageError, match="no model was asked under a mask"):
            audits(session, app.desk, plain)
        calls = session.exec(select(Verdict.symbol, Verdict.rating, Verdict.summary)).all()
    assert found.conversations >= len(calls) > 0
    assert found.leaks == []
    assert set(Counter(calls).values()) == {2}, "each verdict is that of both arms"


DAYS = ("--from", str(FIRST), "--to", str(LAST), "--universe", UNIVERSE)


def command(environ: Mapping[str, str], *arguments: str) -> subprocess.Popen[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("DESK_")}
    whole = [sys.executable, "-m", "chordesk.tasks.cli.main", "backtest", *arguments, "--json"]
    return subprocess.Popen(whole, cwd=REPOSITORY, env={**clean, **environ}, stdout=subprocess.PIPE, text=True)


def interrupted(desk: Walks, environ: Mapping[str, str], number: int) -> Run:
    """Play with a command that is sent a signal after two sessions."""
    before = _newest(desk.store)
    process = command(environ, *DAYS)
    wait_for(lambda: _newest(desk.store) != before, "the backtest is open")
    run = desk.run(str(_newest(desk.store)))
    wait_for(lambda: len(desk.rows(run)) >= 2, "two sessions are done")
    process.send_signal(number)
    process.communicate()
    assert desk.run(run.id).state == RunState.RUNNING
    return run


def _newest(store: Store) -> str | None:
    with store.read() as session:
        rows = select(Run.id).where(Run.kind == "backtest").order_by(col(Run.created_at).desc())
        return session.exec(rows).first()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_command_goes_on_without_redis(
    playing: PlayingDesk, desk: WalkingDesk, walked: Run, number: int
) -> None:
    environ = {"DESK_HOME": str(playing.player.app.desk.settings.home)}
    run = interrupted(playing, environ, number)
    with playing.store.read() as session:
        assert session.exec(select(Step.id).where(Step.state == StepState.RUNNING)).all() == [], "half done"
    again = command(environ, "--resume", run.id)
    out, _ = again.communicate(timeout=PATIENCE)
    assert (again.returncode, json.loads(out)["run_id"]) == (0, run.id)
    assert outline(playing, playing.run(run.id)) == outline(desk, walked)


@pytest.mark.long
def test_workers_go_on_where_a_command_was_killed(desk: WalkingDesk, walked: Run) -> None:
    run = interrupted(desk, desk.processes.environ, signal.SIGKILL)
    assert outline(desk, desk.ended(run.id)) == outline(desk, walked)


def test_a_step_that_fails_half_way_is_undone_alone_and_what_ends_the_process_undoes_all(playing: PlayingDesk) -> None:
    run = open_backtest(playing.player.app, FIRST, LAST, universe=UNIVERSE)
    store = playing.store
    with pytest.raises(KeyboardInterrupt), store.together():
        with store.session() as session:
            session.get_one(Run, run.id).notes = ["kept"]
        with pytest.raises(IntegrityError), store.session() as session:
            session.get_one(Run, run.id).notes = ["undone"]
            session.flush()
            session.add(Run(**{**run.model_dump(), "kind": None}))
            session.flush()
        with store.read() as session:
            assert session.get_one(Run, run.id).notes == ["kept"]
        raise KeyboardInterrupt
    assert playing.run(run.id).notes == []


def test_the_row_of_a_later_session_takes_no_more_statements(playing: PlayingDesk) -> None:
    run = playing.ended(open_backtest(playing.player.app, FIRST, LAST, universe="AAPL,KO"))
    rows, desk = playing.rows(run), playing.player.app.desk
    walk, counted = Walk.of(desk, run), Counter[dt.date]()

    def made(row: BacktestSession) -> None:
        with suppress(KeyboardInterrupt), playing.store.session() as session:
            connection = session.connection()
            event.listen(connection, "before_cursor_execute", lambda *_: counted.update([row.day]))
            again = session_row(
                session, walk, Day(row.day, row.screen_run_id, row.trade_run_id), walk.market(desk, row.day)
            )
            assert (again.orders, again.denials, again.traded) == (row.orders, row.denials, row.traded)
            raise KeyboardInterrupt  # nothing of it is written

    for row in (rows[1], rows[-1]):
        made(row)
    assert 0 < counted[rows[-1].day] <= counted[rows[1].day]


def test_nothing_is_played_while_there_is_no_room_and_after_a_stop(
    playing: PlayingDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = playing.player.app
    run = open_backtest(app, FIRST, LAST, universe=UNIVERSE)
    playing.player.add(run)
    monkeypatch.setattr(
        "chordesk.tasks.engine.shortage_watch.shortages", lambda _: [Shortage("space", "/", 0, 1, True)]
    )
    app.desk.shortages.look()
    playing.player.play(0.5)
    with playing.store.read() as session:
        assert session.exec(select(Step.id).where(col(Step.started_at).is_not(None))).all() == []
    monkeypatch.undo()
    app.desk.shortages.look()
    with playing.store.session() as session:
        mark(session, run.id)
    assert playing.ended(run).state == RunState.STOPPED


@pytest.mark.parametrize("memory", ["off", "on"])
def test_a_halt_refuses_a_backtest_and_ends_one_that_runs(playing: PlayingDesk, memory: str) -> None:
    app, settings = playing.player.app, playing.player.app.desk.settings
    walk: dict[str, Any] = {"universe": UNIVERSE, "memory": memory}
    run = open_backtest(app, FIRST, SECOND, **walk)
    halting.write_file(settings, "a fire", "me")
    with pytest.raises(UsageError, match="every order denied: trading is halted: a fire"):
        open_backtest(app, FIRST, SECOND, **walk)
    done = playing.ended(run)
    assert (done.state, [note[:34] for note in done.notes]) == (
        RunState.PARTIAL,
        ["blocked: trading is halted: a fire"],
    )
    rows = playing.rows(run)
    states = [row.state for row in rows]
    assert states in ([], ["done"], ["blocked"])  # with memory the first day is decided on before it is marked
    with playing.store.read() as session:
        assert "blocked, trading is halted: a fire" in outcome(session, done)
        assert blocked(session, run.id, rows) is not None
    with pytest.raises(UsageError, match="a fire"):
        resume_backtest(app, run.id)
    halting.remove_file(settings)
    went_on = playing.ended(resume_backtest(app, run.id))
    assert len(playing.rows(run)) == 2
    assert (went_on.state == RunState.DONE) == ("blocked" not in states)  # a denied order stays so


def test_a_backtest_of_which_every_order_was_denied_is_no_trial(playing: PlayingDesk) -> None:
    run = playing.ended(open_backtest(playing.player.app, FIRST, SECOND, universe="AAPL,KO"))
    rows, settings, other = playing.rows(run), playing.player.app.desk.settings, new_id()
    with playing.store.session() as session:
        own = {"id": other, "account": backtest_account(other), "params": {**run.params, "backtest": other}}
        session.add(Run(**{**run.model_dump(), **own, "parent_run_id": None, "summary": {}}))
        session.flush()
        for row in rows:
            ids = {"id": new_id(), "backtest_id": other, "run_id": other, "equity": (row.equity or 0) + 1}
            session.add(BacktestSession(**{**row.model_dump(), **ids, "orders": {"filled": 1}}))
    days = [row.day for row in rows]
    with playing.store.session() as session:
        assert len(trials_of(session, run.id, days)) == 1
        for row in backtest_rows(session, other):
            row.orders, row.denials = {"denied": 2}, {"cooldown": 2}
        session.flush()
        assert trials_of(session, run.id, days) == []
        assert outcome(session, session.get_one(Run, other)).endswith("every order was denied: cooldown 4")
        session.get_one(Run, other).summary = {"backtest": {"blocked": "a halt"}}
        with pytest.raises(UsageError, match=f"backtest {other} is blocked: a halt"):
            experiment(session, settings, [run.id, other])


def test_a_backtest_that_asks_a_model_is_not_played_here(playing: PlayingDesk) -> None:
    settings = playing.player.app.desk.settings
    with walking(settings, True) as (_, player):
        assert player is not None
    for changes in ({"role_models": "risk=codex:gpt-5"}, {"provider": "codex"}):
        asking = settings.model_copy(update=changes)
        with pytest.raises(UsageError, match="asks no model"), walking(settings, True, walks=lambda _, a=asking: [a]):
            pass
