"""A server of pages, and calls of page_read in a market of real time."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chordesk.tools.market.clock import LiveClock
from chordesk.tools.model_tools.pages import PAGE_READ
from chordesk.tools.registry import ToolAnswer
from chordesk.tools.toolsets import TurnTools
from tests.fakes.pages import FakePages
from tests.patience import PATIENCE
from tests.tools.conftest import MakeContext
from tests.tools.market.far_market import FarMarket

Read = Callable[..., ToolAnswer]
_runs = itertools.count()


@pytest.fixture
def pages() -> Iterator[FakePages]:
    with FakePages() as server:
        yield server


@pytest.fixture
def read(make_context: MakeContext) -> Read:
    """Return the answer of page_read. run: a new one by default. Without a browser unless one is named."""

    def read(url: str, hosts: str, *, run: str | None = None, start: int = 0, **changes: Any) -> ToolAnswer:
        settings = {"page_browser": "off", "page_hosts": hosts, "tool_seconds": PATIENCE, **changes}
        context = make_context(FarMarket(clock=LiveClock()), **settings)
        context = dataclasses.replace(context, run_id=run or f"run-{next(_runs)}")
        arguments = {"url": url, "start": start} if start else {"url": url}
        return asyncio.run(TurnTools((PAGE_READ,), context).call("page_read", arguments))

    return read


def reason(answer: ToolAnswer) -> str:
    """Return the reason for which an answer has no page."""
    assert answer.success
    assert not answer.has_data
    assert answer.payload["available"] is False
    (gap,) = answer.payload["missing"]
    assert gap["what"] == "page"
    return str(gap["reason"])
