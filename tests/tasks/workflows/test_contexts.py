"""A run with a role that its model's context cannot hold is refused before it is written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from sqlmodel import select

from chordesk.agents.gateway.facts import ServerFacts, keep_facts
from chordesk.agents.prompting import smallest_tokens
from chordesk.agents.roles import ROLES
from chordesk.models.analysis import AnalysisRequest
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.models.tables.runs import Run
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.workflows.analyze import open_analysis
from chordesk.tasks.workflows.research import open_research
from chordesk.tasks.workflows.screen import open_screen, screen_params, split_universe
from tests.databases import make_database
from tests.fakes.local_server import LocalServer
from tests.parts import of_feature

AWAY = "http://127.0.0.1:9/v1"

Open = Callable[..., Celery]


@pytest.fixture
def opened(tmp_path: Path, redis_server: str) -> Iterator[Open]:
    """Makes the app of a desk on local models."""
    apps: list[Celery] = []

    def made(url: str, **values: Any) -> Celery:
        environ = {
            "DESK_HOME": str(tmp_path),
            "DESK_PROVIDER": "local",
            "DESK_PROVIDER_URL": url,
            "DESK_MODEL": "small",
        }
        environ |= {"DESK_REDIS_URL": redis_server, **{f"DESK_{name}": str(value) for name, value in values.items()}}
        settings = load_settings(environ, tmp_path)
        make_database(settings.database)
        apps.append(create_app(settings, "test"))
        return apps[-1]

    yield made
    for app in apps:
        app.desk.close()
        app.close()


def settings_of(app: Celery) -> Settings:
    return app.desk.settings


def facts(settings: Settings, context: int | None, url: str = AWAY) -> None:
    asked = dt.datetime(2026, 11, 24, tzinfo=dt.UTC)
    found = ServerFacts(url=url, server="llama.cpp", version="1", model="small", context=context, asked_at=asked)
    keep_facts(settings.home, found)


def runs(app: Celery) -> list[Run]:
    with app.desk.store.read() as session:
        return list(session.exec(select(Run)).all())


def test_a_role_that_does_not_fit_is_refused_with_what_it_needs(opened: Open) -> None:
    app = opened(AWAY)
    needed = smallest_tokens(ROLES["risk"], settings_of(app))
    facts(settings_of(app), needed - 1)
    with pytest.raises(UsageError) as refused:
        open_research(app, ["IBM"])
    assert str(refused.value.args[0]) == (
        f"a turn of risk on local:small takes {needed:,} tokens at the least; its context has {needed - 1:,}"
    )
    assert "llama.cpp: -c" in refused.value.remedy
    with pytest.raises(UsageError, match=r"a turn of (screener_|risk)"):
        open_screen(app, "IBM,GE")
    with pytest.raises(UsageError, match=r"a turn of (chart|risk) on local:small"):
        open_analysis(app, ["IBM"], AnalysisRequest(strategy="equity"))
    assert runs(app) == []
    facts(settings_of(app), needed)
    assert open_research(app, ["IBM"]) is not None
    assert len(runs(app)) == 1


def test_a_scheduled_screen_is_refused_too(opened: Open) -> None:
    app = opened(AWAY)
    facts(settings_of(app), 2_048)
    with pytest.raises(UsageError, match="its context has 2,048"):
        open_screen(app, schedule="premarket", slot="2026-11-24")
    assert runs(app) == []


def test_a_scheduled_episode_is_refused_too(opened: Open) -> None:
    open_episode = of_feature("chordesk.tasks.board.episode.opening:open_episode")
    app = opened(AWAY)
    facts(settings_of(app), 2_048)
    with pytest.raises(UsageError, match="a turn of voice_"):
        open_episode(app, ["IBM"], schedule="episode", slot="2026-11-24")
    assert runs(app) == []


def test_the_server_is_asked_where_nothing_is_known(opened: Open) -> None:
    with LocalServer(kind="llama.cpp", model="small", context=3_000) as server:
        app = opened(server.url)
        with pytest.raises(UsageError, match="its context has 3,000"):
            open_research(app, ["IBM"])
        assert server.chats() == [], "without a model call"
        server.context = 65_536
        assert open_research(app, ["IBM"]) is not None


def test_a_small_context_gets_smaller_shards_and_no_symbol_is_lost(opened: Open) -> None:
    app = opened(AWAY, LENSES="technical")
    facts(settings_of(app), 8_192)
    run = open_screen(app, "sp500")
    assert run is not None
    expected = screen_params(settings_of(app), run.params["symbols"])["symbols"]
    step = type("Step", (), {"run_id": run.id, "parent_id": "finish"})()
    ending = split_universe(app.desk, step, None)  # type: ignore[arg-type]
    _, *shards = ending.children  # type: ignore[union-attr]
    assert [symbol for one in shards for symbol in one.payload["symbols"]] == expected
    assert max(len(one.payload["symbols"]) for one in shards) <= 12
    (note,) = ending.result["notes"]  # type: ignore[union-attr]
    assert "symbols a turn in place of 131" in note
