from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agents.litellm.kit import served
from tests.fakes.chat import FakeChat, answer


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeChat]:
    """A scriptable model on loopback, of both dialects; answers when nothing else is scripted."""
    with served(monkeypatch) as found:
        found.policy = lambda _body: answer({"ok": True})
        yield found
