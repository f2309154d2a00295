from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agents.litellm.kit import point_at, served
from tests.fakes.chat import FakeChat, answer
from tests.fakes.local_server import LocalServer


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeChat]:
    """A scriptable model on loopback, of both dialects; answers when nothing else is scripted."""
    with served(monkeypatch) as found:
        found.policy = lambda _body: answer({"ok": True})
        yield found


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    """A local server with the habits of real ones."""
    with LocalServer() as found:
        point_at(monkeypatch, found)
        yield found
