"""Scope of a kept thread: its provider, its market and its replay day, without a login."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from chordesk.agents.role_models import default_model
from chordesk.agents.runner import thread_scope
from chordesk.models.settings import Settings
from chordesk.tools.market.factory import build_market


def scope_of(here: Settings) -> str:
    return thread_scope(here, default_model(here), build_market(here))


def test_a_kept_thread_belongs_to_its_provider_market_and_replay_day(tmp_path: Path) -> None:
    def scope(**values: Any) -> str:
        return scope_of(Settings(home=tmp_path, **values))

    scopes = [
        scope(),
        scope(replay_date=dt.date(2010, 3, 1)),
        scope(market="yahoo"),
        scope(provider="codex"),
        scope(provider="endpoint", provider_url="http://127.0.0.1:1/v1"),
        scope(provider="endpoint", provider_url="http://127.0.0.1:2/v1"),
        scope(provider="local", provider_url="http://127.0.0.1:2/v1"),
    ]
    assert len(set(scopes)) == len(scopes)
    assert scopes[1] == "rulebook/replay-2010-03-01/paper"
    assert scope(market="yahoo") == scope(market="yahoo", replay_date=dt.date(2010, 3, 1))


def test_the_login_and_the_query_of_a_providers_address_are_no_part_of_a_threads_name(tmp_path: Path) -> None:
    """The name is shown; and a key that is changed must not lose the threads."""

    def scope(url: str) -> str:
        return scope_of(Settings(home=tmp_path, provider="endpoint", provider_url=url))

    plain = scope("https://api.example:8443/v1")
    assert plain.startswith("endpoint@https://api.example:8443/v1/")
    for login in ("user:hunter2secret@", "user:hunter3secret@", "sk-123456@"):
        for query in ("?api_key=sk-123456", "?code=other#sk-1", ""):
            assert scope(f"https://{login}api.example:8443/v1{query}") == plain
