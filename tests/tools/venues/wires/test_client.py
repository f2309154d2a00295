"""Each way in which an answer goes wrong is an error that names the venue, within the time limit."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pydantic import TypeAdapter

from chordesk.models.errors import MarketError, MarketUnavailable
from chordesk.tools.market.fetching import Source
from chordesk.tools.venues import json_client
from chordesk.tools.venues.json_client import JsonClient
from tests.fakes.venues import FarVenues, Fault, manifold_row
from tests.patience import PATIENCE

QUICK, PATH = 1000.0, "/v0/market/m1"
ANY: TypeAdapter[Any] = TypeAdapter(Any)


def made(far: FarVenues, seconds: float = PATIENCE) -> JsonClient:
    far.manifold["m1"] = manifold_row("m1", "Will it rain?")
    return JsonClient(far.url, Source("Manifold", QUICK, 100, 30), seconds)


def test_an_answer_is_its_json(far: FarVenues) -> None:
    assert made(far).get(ANY, PATH)["id"] == "m1"


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Fault("html"), "no whole JSON, but text/html that begins '<!doctype html>"),
        (Fault("half"), "Manifold does not answer: it ended before its end"),
        (Fault("status", status=503), "Manifold does not answer: HTTP 503"),
        (Fault("status", status=302), "Manifold does not answer: HTTP 302"),
    ],
)
def test_an_answer_that_is_no_json_is_unavailable(far: FarVenues, fault: Fault, text: str) -> None:
    far.faults["/v0/"] = fault
    with pytest.raises(MarketUnavailable, match="Manifold") as caught:
        made(far).get(ANY, PATH)
    assert text in str(caught.value)


def test_an_unknown_thing_is_not_retried_as_if_the_venue_were_away(far: FarVenues) -> None:
    with pytest.raises(MarketError, match="Manifold has nothing at /v0/market/none") as caught:
        made(far).get(ANY, "/v0/market/none")
    assert not caught.value.retryable


def test_a_refused_request_names_its_status(far: FarVenues) -> None:
    far.faults["/v0/"] = Fault("status", status=403)
    with pytest.raises(MarketError, match="Manifold refuses the request \\(HTTP 403\\)") as caught:
        made(far).get(ANY, PATH)
    assert not caught.value.retryable


def test_an_answer_that_trickles_in_is_given_up(far: FarVenues) -> None:
    far.faults["/v0/"] = Fault("slow", wait="0.05")
    begun = time.monotonic()
    with pytest.raises(MarketUnavailable, match=r"Manifold does not answer: no whole answer within 0\.5 s"):
        made(far, seconds=0.5).get(ANY, PATH)
    assert time.monotonic() - begun < PATIENCE


def test_an_address_without_a_server_is_unavailable() -> None:
    with pytest.raises(MarketUnavailable, match="Manifold does not answer: no connection"):
        JsonClient("http://127.0.0.1:9", Source("Manifold", QUICK, 100, 30)).get(ANY, PATH)


def test_an_answer_beyond_the_limit_is_given_up(far: FarVenues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_client, "MOST_BYTES", 2**20)
    asking = made(far)
    far.manifold["m1"]["textDescription"] = "x" * 2**21
    with pytest.raises(MarketUnavailable, match="Manifold's answer is larger than 1 MB"):
        asking.get(ANY, PATH)


@pytest.mark.parametrize("wait", [None, "0", "Mon, 01 Jan 2024 00:00:00 GMT", "soon"])
def test_too_many_requests_are_retried_once_within_the_limit(far: FarVenues, wait: str | None) -> None:
    far.faults["/v0/"] = Fault("busy", times=1, wait=wait)
    assert made(far).get(ANY, PATH)["id"] == "m1"
    assert len(far.asked) == 2


def test_a_wait_beyond_the_limit_ends_the_requests_for_that_time(far: FarVenues) -> None:
    far.faults["/v0/"] = Fault("busy", times=1, wait="7200")
    asking = made(far)
    for _ in range(2):
        with pytest.raises(MarketUnavailable, match="Manifold limits our requests") as caught:
            asking.get(ANY, PATH)
        assert "try again in 7" in caught.value.remedy
    assert len(far.asked) == 1


def test_too_many_requests_twice_are_an_error(far: FarVenues) -> None:
    far.faults["/v0/"] = Fault("busy", wait="0")
    with pytest.raises(MarketUnavailable, match=r"HTTP 429.*try again in 30 s"):
        made(far).get(ANY, PATH)
    assert len(far.asked) == 2


def test_requests_wait_for_their_turn(far: FarVenues) -> None:
    far.manifold["m1"] = manifold_row("m1", "Will it rain?")
    asking = JsonClient(far.url, Source("Manifold", 10.0, 1, 30))
    begun = time.monotonic()
    for _ in range(4):
        asking.get(ANY, PATH)
    assert time.monotonic() - begun >= 0.3
