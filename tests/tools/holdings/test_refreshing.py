"""Sources of holdings: the Flex Web Service against its stand-in, and what is refused of any source."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from chordesk.models.errors import DeskError, ServiceError, UsageError
from chordesk.models.features import HoldingsSource
from chordesk.models.settings.schema import HOLDINGS_SOURCES
from chordesk.models.statements import Holding, Snapshot, Statement
from chordesk.tools.holdings.flex_service import FlexService
from chordesk.tools.holdings.reading import read_file
from chordesk.tools.holdings.refreshing import chosen, read_source
from tests.fakes.flex import NOT_YET, FarFlex, says
from tests.tools.holdings.test_formats import FILES, HINTS, worth

TOKEN = "111222333444555666"
QUICK = {"pauses": (0.01,), "most": 5.0, "minute": 0.02}


@pytest.fixture
def far() -> Iterator[FarFlex]:
    found = FarFlex(TOKEN, (FILES / "flex.xml").read_text(encoding="utf-8"))
    found.start()
    yield found
    found.shutdown()
    found.server_close()


def environ(far: FarFlex, **more: str) -> dict[str, str]:
    return {"IBKR_FLEX_TOKEN": TOKEN, "IBKR_FLEX_QUERY": "777", "IBKR_FLEX_URL": far.url, **more}


def test_a_statement_of_the_flex_service_is_what_its_file_is(far: FarFlex) -> None:
    found, file = read_source("ibkr-flex", environ(far)), read_file(FILES / "flex.xml", HINTS)
    assert (found.source, worth(found)) == (file.source, worth(file))
    assert found.statements[0].number == file.statements[0].number
    assert [one for one, _ in far.asked] == ["SendRequest", "GetStatement"]
    assert read_source("ibkr-flex", environ(far)).digest == found.digest, "nothing changed"


@pytest.mark.parametrize(
    "first",
    [
        [NOT_YET],
        [says("1018", "Too many requests have been made from this token."), NOT_YET, NOT_YET],
        [503, 502],
        ["cut"],
        ["<FlexStatementResponse><Status>Succ"],
        ["<html>Down for maintenance</html>", 500],
    ],
)
def test_it_waits_for_what_is_not_there_yet(far: FarFlex, first: list[str | int]) -> None:
    for before in ([], [far._answer("SendRequest", {"t": TOKEN, "q": "777"})]):  # at either of the two requests
        far.first = [*before, *first]
        data = FlexService(far.url, TOKEN, **QUICK).statement("777")  # type: ignore[arg-type]
        assert data.decode() == far.document


@pytest.mark.parametrize(
    ("first", "query", "words"),
    [
        ([says("1012", "Token has expired.")], "777", "1012 Token has expired"),
        ([], "778", "1014 Query is invalid"),
        ([404], "777", "404 status 404"),
        ([302], "777", "302 status 302"),
        ([NOT_YET] * 500, "777", "gave no statement within 0.5 s; its last answer: 1019 Statement generation"),
    ],
)
def test_what_it_refuses_is_said_without_the_token(
    far: FarFlex, first: list[str | int], query: str, words: str
) -> None:
    far.first = list(first)
    with pytest.raises(ServiceError, match=words) as refused:
        FlexService(far.url, TOKEN, **QUICK | {"most": 0.5}).statement(query)  # type: ignore[arg-type]
    assert TOKEN not in f"{refused.value!r} {refused.value.remedy} {refused.value.__context__!r}"


def test_its_token_goes_nowhere_in_clear(far: FarFlex) -> None:
    with pytest.raises(UsageError, match="would send the token in clear"):
        read_source("ibkr-flex", environ(far, IBKR_FLEX_URL="http://example.com/Flex"))
    far.shutdown()
    far.server_close()
    with pytest.raises(ServiceError, match="refused") as away:
        FlexService(far.url, TOKEN, **QUICK | {"most": 0.05}).statement("777")  # type: ignore[arg-type]
    assert TOKEN not in repr(away.value)


GOOD = Holding(1, "IBM", "share", Decimal(3), "USD", "IBM")
DAY = dt.date(2026, 1, 5)
answers: list[Any] = []


def read(environ: Mapping[str, str]) -> Snapshot:
    answer = answers.pop()
    if isinstance(answer, BaseException):
        raise answer
    return answer if not isinstance(answer, Holding) else Snapshot((Statement("1", (answer,), DAY),), tuple(environ))


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> str:
    described = HoldingsSource(f"{__name__}:read", "Mine", ("MINE_READ_KEY",), ("MINE_PLACE",))
    monkeypatch.setitem(HOLDINGS_SOURCES, "mine", described)
    return "mine"


MINE = {"MINE_READ_KEY": "a-key-of-mine", "MINE_PLACE": "here", "ALPACA_API_KEY": "another"}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (replace(GOOD, quantity=Decimal("NaN")), "'IBM' has the quantity NaN"),
        (replace(GOOD, quantity=Decimal("1e12")), r"has the quantity 1E\+12"),
        (replace(GOOD, price=1.5), "has the price 1.5"),
        (replace(GOOD, rate=Decimal(-1)), "has the rate -1"),
        (replace(GOOD, kind="bet"), "is of the kind 'bet'"),
        (replace(GOOD, currency="$"), r"is in '\$', which is no currency"),
        (replace(GOOD, symbol="I B M"), "which is no symbol"),
        (Snapshot((Statement("1", (GOOD,), dt.date(2999, 1, 1)),)), "answers as of 2999-01-01"),
        (Snapshot((Statement("1", (GOOD,)),)), "answers as of None"),
        (Snapshot((Statement("1", (), DAY),)), "mine shows no holdings"),
        ({"IBM": 3}, "answers dict, and a Snapshot is due"),
        (ServiceError("the key a-key-of-mine is wrong", remedy="not a-key-of-mine"), r"the key \*+ is wrong"),
    ],
)
def test_what_cannot_be_an_account_is_refused_by_name(source: str, answer: Any, words: str) -> None:
    answers.append(answer)
    with pytest.raises(DeskError, match=words) as refused:
        read_source(source, MINE)
    assert "a-key-of-mine" not in f"{refused.value!r}{refused.value.remedy}"


def test_a_source_has_its_own_variables_alone(source: str) -> None:
    answers.append(GOOD)
    assert read_source(source, MINE).notes == ("MINE_READ_KEY", "MINE_PLACE")
    assert chosen([], MINE) == ["mine"]
    for names, given, words in (
        ([], {}, "no source of holdings has its keys"),
        (["other"], MINE, "there is no source 'other'"),
        (["mine"], {}, "mine needs MINE_READ_KEY"),
    ):
        with pytest.raises(UsageError, match=words):
            chosen(names, given)
    for keys in ((), ("MINE",), ("DESK_KEY",), ("MINE_KEY_FILE",)):
        with pytest.raises(ValueError, match="names"):
            HoldingsSource("a:b", "Mine", keys)
