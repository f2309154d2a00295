"""A whole run of real workers, followed live and watched by the command: all that happened, in a sensible order."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator

import pytest
from sqlmodel import select

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.events import DESK, Domain, Envelope, EventType, event
from chordesk.models.states import StepKind
from chordesk.models.tables.runs import Step, Turn
from chordesk.models.tables.runtime import RuntimeConversation, RuntimeItem, RuntimeTurn
from chordesk.tasks.events.feed import Feed
from chordesk.tasks.redis_clients import redis_url
from chordesk.tasks.workflows.research import open_research
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, processes, wait_for
from tests.tasks.cli.running import desk as command
from tests.tasks.events.kit import read, sequences


@pytest.fixture(scope="module")
def desk() -> Iterator[Processes]:
    with processes() as found:
        found.rulebook()
        found.workers("research", "ops", "trade")
        yield found


@pytest.fixture(scope="module")
def run(desk: Processes) -> str:
    """A research run on two symbols, begun."""
    return open_research(desk.app, ["IBM", "AAPL"]).id


@pytest.fixture(scope="module")
def live(desk: Processes, run: str) -> list[Envelope]:
    """Return the events of a reader that was there from the beginning to the end."""

    async def main() -> list[Envelope]:
        async with Feed(store_of(desk), redis_url(desk.settings)) as feed:
            return await asyncio.wait_for(read(feed, run), PATIENCE)

    return asyncio.run(main())


def store_of(desk: Processes) -> Store:
    return desk.app.desk.store


def desk_command(desk: Processes, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command(desk.home, *arguments, **{name: desk.environ[name] for name in ("DESK_REDIS_URL", "DESK_HOME")})


def test_a_live_reader_gets_all_that_is_stored(desk: Processes, run: str, live: list[Envelope]) -> None:
    assert sequences(live) == list(range(1, len(live) + 1))
    with store_of(desk).read() as session:
        assert event_log.read(session, run, 0, 10_000) == live
    assert live[0].type is EventType.RUN_STARTED
    assert (live[-1].type, live[-1].payload["state"]) == (EventType.RUN_COMPLETED, "done")


def test_every_step_begins_and_ends_and_its_turns_lie_between(desk: Processes, run: str, live: list[Envelope]) -> None:
    places: dict[str, dict[EventType, int]] = defaultdict(dict)
    threads: dict[str, str] = {}
    for place, one in enumerate(live):
        if one.domain is Domain.STATUS:
            assert one.type not in places[one.payload["step"]], "sent twice"
            places[one.payload["step"]][one.type] = place
        elif one.type is EventType.TURN_STARTED:
            threads[str(one.thread_id)] = one.payload["step"]
    with store_of(desk).read() as session:
        steps = session.exec(select(Step).where(Step.run_id == run)).all()
    for step in steps:
        # A step that waited for others and only joined them is claimed as any other.
        assert set(places[step.id]) == {EventType.STATUS_STARTED, EventType.STATUS_ENDED}, step.kind
    for place, one in enumerate(live):
        if one.thread_id is not None:
            mine = places[threads[one.thread_id]]
            assert mine[EventType.STATUS_STARTED] < place < mine[EventType.STATUS_ENDED]
    reports = sum(step.kind == StepKind.REPORT for step in steps)
    assert len(threads) == reports > 2


def test_conversations_turns_and_items_are_stored_as_they_ended(
    desk: Processes, run: str, live: list[Envelope]
) -> None:
    def rows() -> tuple[list[RuntimeConversation], list[RuntimeTurn], list[RuntimeItem]]:
        with store_of(desk).read() as session:
            conversations = session.exec(select(RuntimeConversation).where(RuntimeConversation.run_id == run)).all()
            turns = session.exec(select(RuntimeTurn).where(RuntimeTurn.run_id == run)).all()
            items = session.exec(select(RuntimeItem).where(RuntimeItem.run_id == run)).all()
        return list(conversations), list(turns), list(items)

    def last_rows() -> bool:
        conversations, turns, _ = rows()
        return len(turns) >= len(rested) and all(conversation.closed_at for conversation in conversations)

    with store_of(desk).read() as session:
        rested = session.exec(select(Turn).where(Turn.run_id == run)).all()
    wait_for(last_rows, "the last rows are written")
    conversations, turns, items = rows()
    assert {(row.thread_id, row.turn_id) for row in turns} == {(row.thread_id, row.codex_turn_id) for row in rested}
    assert {row.thread_id for row in conversations} == {row.thread_id for row in rested}
    assert {row.status for row in turns} == {row.status for row in items} == {"completed"}
    assert all(row.ended_at and row.started_at <= row.ended_at for row in (*turns, *items))
    assert {row.turn_id for row in items} == {row.turn_id for row in turns}
    assert all(conversation.active_turn_id is None for conversation in conversations)


class TestWatch:
    def test_it_prints_a_run_that_has_ended_with_its_state(
        self, desk: Processes, run: str, live: list[Envelope]
    ) -> None:
        found = desk_command(desk, "watch", run[:20])
        assert found.returncode == 0, found.stderr
        standing, *lines = found.stdout.splitlines()
        assert standing.startswith("preview; broker paper;")
        assert len(lines) == len(live)
        assert "run.started" in lines[0]
        assert "run.completed" in lines[-1]
        assert "done" in lines[-1]
        assert any("turn.started" in line and "quick IBM" in line for line in lines)

    def test_without_a_run_it_shows_all_that_happens_until_ctrl_c(self, desk: Processes, live: list[Envelope]) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "chordesk.tasks.cli.main", "watch", "--json"],
            cwd=REPOSITORY, env=desk.environ, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            # Nothing says when it has begun: the first of these that it shows does.
            first = threading.Thread(target=process.stdout.readline)
            first.start()
            while first.is_alive():
                with store_of(desk).session() as session:
                    event_log.append(session, [event(EventType.ORDER_TRADING, DESK, why="anybody there?")])
                first.join(0.5)
            new = open_research(desk.app, ["GE"]).id
            got: list[Envelope] = []
            while not got or got[-1].type is not EventType.RUN_COMPLETED:
                one = Envelope.model_validate_json(process.stdout.readline())
                got += [one] if one.run_id != DESK else []
            assert {one.run_id for one in got} == {new}
            assert sequences(got) == list(range(1, len(got) + 1))
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
