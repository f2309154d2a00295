"""A project of the same shapes, and a model on loopback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chordesk.agents.graphs.langchain.runtimes import close_bridges
from chordesk.tools.market.replay.market import ReplayData, replay_data
from tests.fakes.obedient import obedient
from tests.fakes.responses import FakeResponses

TOY = Path(__file__).parents[3] / "toy" / "trading_agents"


def forget() -> None:
    """Unload the packages of a project."""
    for name in [name for name in list(sys.modules) if name.split(".")[0] in ("tradingagents", "cli")]:
        del sys.modules[name]


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project that a provider can be registered in, as if it were installed."""
    forget()
    monkeypatch.syspath_prepend(TOY)
    yield TOY
    forget()


@pytest.fixture(scope="session")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> ReplayData:
    return replay_data(tmp_path_factory.mktemp("replay"))


@pytest.fixture(scope="module")
def far_side() -> Iterator[FakeResponses]:
    with FakeResponses(obedient) as model:
        yield model
    close_bridges()


@pytest.fixture
def model(far_side: FakeResponses) -> FakeResponses:
    far_side.policy = obedient
    far_side.requests.clear()
    return far_side
