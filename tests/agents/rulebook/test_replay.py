"""The whole road on real prices: four lenses over the replay universe, research, verdicts, the trader's actions.

Tools are the desk's own, the rulebook is asked over HTTP; only the app-server between them is left out.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from chordesk.agents.prompting import render
from chordesk.agents.roles import ROLES, Hit, RankedCandidate, accept, default_roles, rank, shards
from chordesk.agents.subjects import JudgedSymbol, Thesis, screener_subject, trader_subject, validator_subject
from chordesk.agents.verdict import reduce_reports
from chordesk.models.answers import (
    Rating,
    ReportStatus,
    RoleReport,
    ScreenOutput,
    TraderOutput,
    ValidatorOutput,
    output_schema,
)
from chordesk.models.settings import LENSES, Settings
from chordesk.tools.market.factory import build_market
from chordesk.tools.registry import ToolAnswer, ToolContext
from chordesk.tools.toolsets import toolset_for
from tests.agents.rulebook.turns import Turn, converse, user

PORTFOLIO = {"cash": 100_000.0, "equity": 100_000.0, "buyingPower": 100_000.0, "positions": []}


class Floor:
    """A desk on the replay market that asks the rulebook, one turn after the other."""

    def __init__(self, http: httpx.Client, settings: Settings) -> None:
        self.http, self.settings = http, settings
        market = build_market(settings)
        self.market = market
        self.context = ToolContext(market, market.clock, None, settings, "paper", None)

    def turn(self, key: str, subject: dict[str, Any]) -> tuple[Turn, list[ToolAnswer]]:
        role, seen = ROLES[key], []
        tools = toolset_for(role.tools, self.context, 20.0, lambda _arguments, answer: seen.append(answer))

        def caller(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
            return lambda arguments: asyncio.run(tools.call(name, arguments)).payload

        prompt = render(role, subject, self.settings)
        turn = converse(
            self.http,
            key,
            [user(prompt.user)],
            {tool.name: caller(tool.name) for tool in role.tools},
            output_schema(role.schema),
        )
        return turn, seen

    def screen(self) -> tuple[list[Hit], dict[str, list[ToolAnswer]]]:
        symbols = [listing.symbol for listing in self.market.universe("sp500")]
        hits: list[Hit] = []
        seen: dict[str, list[ToolAnswer]] = {lens: [] for lens in LENSES}
        for lens in LENSES:
            for number, shard in enumerate(shards(symbols, self.settings.shard_size)):
                turn, answers = self.turn(f"screener_{lens}", screener_subject(lens, number, shard, self.settings))
                seen[lens] += answers
                kept, notes = accept(ScreenOutput.model_validate(turn.answer), lens, shard, options_allowed=False)
                assert notes == []
                hits += [
                    Hit(f"{lens}{number}{one.symbol}", lens, one.symbol, one.instrument, one.confidence, one.thesis)
                    for one in kept
                ]
        return hits, seen

    def report(self, key: str, candidate: RankedCandidate) -> RoleReport:
        theses = [Thesis(lens=hit.lens, confidence=hit.confidence, thesis=hit.thesis) for hit in candidate.hits]
        turn, seen = self.turn(key, validator_subject(candidate.symbol, candidate.instrument, theses, self.settings))
        if not any(answer.has_data for answer in seen):
            return RoleReport(role=key, status=ReportStatus.NO_DATA, reason="no tool had data")
        output = ValidatorOutput.model_validate(turn.answer)
        return RoleReport(
            role=key,
            status=ReportStatus.COMPLETED,
            verdict=output.verdict,
            confidence=output.confidence,
            summary=output.summary,
            key_risks=output.key_risks,
        )


@pytest.fixture(scope="module")
def floor(http: httpx.Client, tmp_path_factory: pytest.TempPathFactory) -> Floor:
    return Floor(http, Settings(home=tmp_path_factory.mktemp("home"), replay_date=dt.date(2010, 8, 12)))


@pytest.fixture(scope="module")
def screened(floor: Floor) -> tuple[list[Hit], dict[str, list[ToolAnswer]]]:
    return floor.screen()


def test_the_screen_of_the_whole_universe(screened: tuple[list[Hit], dict[str, list[ToolAnswer]]]) -> None:
    hits, seen = screened
    assert len({hit.symbol for hit in hits}) >= 20
    by_lens = Counter(hit.lens for hit in hits)
    assert by_lens["fundamental"] == 0
    assert min(by_lens[lens] for lens in ("technical", "catalyst", "options")) >= 8
    assert all(answer.success for answers in seen.values() for answer in answers)
    assert not any(answer.has_data for answer in seen["fundamental"])
    assert sum(answer.has_data for answer in seen["technical"]) == 4


def test_from_candidates_to_actions(floor: Floor, screened: tuple[list[Hit], dict[str, list[ToolAnswer]]]) -> None:
    candidates = rank(screened[0], 20)
    assert len(candidates) == 20
    judged: list[JudgedSymbol] = []
    for candidate in candidates:
        reports = [floor.report(key, candidate) for key in default_roles()]
        assert next(report.status for report in reports if report.role == "fundamentals") is ReportStatus.NO_DATA
        result = reduce_reports(reports, floor.settings.required_roles)
        assert result.rating is not Rating.INSUFFICIENT
        assert result.missing == ["fundamentals: no_data (no tool had data)"]
        found = result.model_dump(include={"rating", "confidence", "summary", "missing"})
        judged.append(
            JudgedSymbol(symbol=candidate.symbol, instrument=candidate.instrument, keyRisks=result.key_risks, **found)
        )
    ratings = Counter(one["rating"] for one in judged)
    assert len(ratings) >= 2, ratings
    assert ratings[Rating.BUY] >= 1, ratings
    turn, _ = floor.turn("trader", trader_subject("paper", judged, PORTFOLIO, floor.settings))
    actions = TraderOutput.model_validate(turn.answer).actions
    opened = [action for action in actions if action.action == "open"]
    bought = {one["symbol"] for one in judged if one["rating"] is Rating.BUY}
    assert opened
    assert {action.symbol for action in opened} <= bought
    assert all((action.notional or 0) <= floor.settings.max_order_notional for action in opened)
    assert sum(action.notional or 0 for action in opened) <= PORTFOLIO["cash"]
