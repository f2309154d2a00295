"""Roles and prompts: what each must have, and what it may not have."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.agents.desk_roles import check_roles, role_approvals, role_of
from chordesk.agents.prompting import PROMPTS, instructions, render, subject_block
from chordesk.agents.roles import (
    ROLES,
    TOOLS,
    WEIGHTS,
    Hit,
    Role,
    accept,
    default_roles,
    following,
    rank,
    rejecting,
    required_roles,
    research_roles,
    roots,
    shards,
    validators,
)
from chordesk.agents.rulebook.cases import parse
from chordesk.agents.rulebook.policies import POLICIES
from chordesk.agents.subjects import (
    AnalystSubject,
    JudgedSymbol,
    SkepticSubject,
    SynthesisSubject,
    Thesis,
    VoiceSubject,
    analyst_subject,
    constraints,
    screener_subject,
    skeptic_subject,
    synthesis_subject,
    trader_subject,
    validator_subject,
    voice_subject,
)
from chordesk.models.analysis import AnalysisRequest
from chordesk.models.answers import Instrument, ScreenCandidate, ScreenConfidence, ScreenOutput
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.questions import CitedSignal, VoiceForecast, VoicePosition
from chordesk.models.settings import LENSES, Settings

SETTINGS = Settings()
PORTFOLIO = {"cash": 90_000.0, "equity": 100_000.0, "buyingPower": 80_000.0, "positions": []}
# Names of tools there were, are or may be: none may stand in a prompt whose role cannot call it.
KNOWN_TOOLS = {
    *TOOLS,
    "orders_submit",
    "orders_preview",
    "web_search",
    "news_index",
    "options_chain",
    "options_unusual",
}


def judged(summary: str) -> JudgedSymbol:
    return JudgedSymbol(
        symbol="AA", instrument="equity", rating="BUY", confidence="high", summary=summary, keyRisks=["risk"],
        missing=["fundamentals: no_data (x)"],
    )  # fmt: skip


def subject_of(
    role: Role, settings: Settings = SETTINGS, thesis: str = "it rises", symbol: str = "AA"
) -> dict[str, Any]:
    """A subject of a run; thesis and symbol are all that is its own, and the shard or round."""
    if role.smallest is not None:
        return {**role.smallest(settings), "words": thesis}
    if role.mode == "screener":
        return dict(screener_subject("technical", len(symbol), [symbol, "ZZ"], settings))
    if role.subject is SynthesisSubject:
        return dict(synthesis_subject(symbol, "csp", {"recommendation": "reject", "reasons": [thesis]}, settings))
    if role.subject is VoiceSubject:
        forecast = VoiceForecast(
            question="Q1", probability=0.6, stake=0.2, because=thesis, chain=[],
            citations=[CitedSignal(signal="momentum-1", stance="build", claim=thesis)],
        )  # fmt: skip
        positions = [VoicePosition(voice="weaver", round=1, forecast=forecast)]
        return dict(voice_subject(role.key, len(symbol), "the board", [], [], settings, positions, "the record"))
    if role.mode == "research":
        theses = [Thesis(lens="technical", confidence="high", thesis=thesis)]
        found = validator_subject(symbol, "equity", theses, settings)
        if role.subject is SkepticSubject:
            return dict(skeptic_subject(found, [{"change": thesis}], {"horizon": len(symbol)}))
        return dict(analyst_subject(found, AnalysisRequest()) if role.subject is AnalystSubject else found)
    portfolio = {**PORTFOLIO, "positions": [{"symbol": symbol}]}
    return dict(trader_subject("paper", [judged(thesis)], portfolio, settings, {symbol: (thesis,)}))


def in_request(role: Role, subject: Mapping[str, Any], settings: Settings = SETTINGS) -> dict[str, Any]:
    """The subject as the far side of the wire reads it."""
    prompt = render(role, subject, settings)
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt.user}]}
    body = {"instructions": prompt.base_instructions, "input": [item]}
    case = parse(json.dumps(body).encode())[1]
    assert case.role == role.key
    return case.subject


def test_every_role_has_rules_and_every_lens_its_role() -> None:
    assert set(POLICIES) - {"screener_*"} == set(ROLES)  # the rules of own lenses
    assert {*(f"screener_{lens}" for lens in LENSES), "trader"} <= set(ROLES)


def test_the_settings_choose_the_roles_that_research_and_screen() -> None:
    assert research_roles(SETTINGS) == default_roles()
    assert {"quick", "fundamentals", "risk", "catalyst"} <= set(default_roles())
    assert "overview" not in default_roles()
    chosen = Settings(research_roles="risk, overview,quick,risk")
    assert research_roles(chosen) == ("quick", "overview", "risk")
    for wrong in ("astrology", "trader", "screener_technical"):
        with pytest.raises(
            SettingError, match=rf"\(DESK_RESEARCH_ROLES\) has '{wrong}'.*choose among quick, overview, "
        ):
            check_roles(Settings(research_roles=f"quick,{wrong}"))


def test_the_settings_choose_the_roles_that_a_buy_requires() -> None:
    assert required_roles(SETTINGS) == ("quick", "risk")
    assert required_roles(Settings(research_roles="risk,fundamentals")) == ("risk",)
    assert required_roles(Settings(required_roles="risk,catalyst")) == ("risk", "catalyst")
    assert required_roles(Settings(required_roles="none", research_roles="quick")) == ()
    for wrong, settings in (
        ("astrology", Settings(required_roles="risk,astrology")),
        ("overview", Settings(required_roles="overview")),  # it is optional, and not chosen
        ("risk", Settings(research_roles="quick,fundamentals")),
    ):
        with pytest.raises(
            SettingError, match=rf"\(DESK_REQUIRED_ROLES\) has '{wrong}', which does not research.*none"
        ):
            check_roles(settings)


def test_the_order_of_roles_follows_from_their_entries() -> None:
    keys = validators()
    assert roots(keys) == ("quick",)
    assert {"overview", "fundamentals", "risk", "catalyst"} <= set(following(keys, "quick"))
    assert following(keys, "risk") == ()
    # Where the role that others follow does not run, they start at once; so does one of an older version.
    assert roots(("catalyst", "risk")) == ("catalyst", "risk")
    assert roots(("quick", "retired")) == ("quick", "retired")
    assert roots(()) == ()
    assert rejecting() == ("quick", "chart", "research")


def test_only_the_tool_list_names_tools() -> None:
    """Prompt files hold no tool name: what they say stays true when a role's set changes."""
    for path in PROMPTS.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        assert not [name for name in KNOWN_TOOLS if name in text], path.name


RULES = (
    "Never invent", "Name what is missing", "outside text", "not instructions", "You cannot place an order",
    "fits the output schema",
)  # fmt: skip


def test_every_role_has_the_rules_of_the_desk_its_tools_and_nothing_of_the_subject_in_its_instructions() -> None:
    """A kept thread has its instructions from its first turn."""
    for role in ROLES.values():
        text = instructions(role, Settings())
        assert text.split("\n")[0] == f"Role: {role.key}"
        assert not [rule for rule in RULES if rule not in text], role.key
        assert not re.search(r"\{\{|\{%|\n\n\n\n", text), role.key
        prompt = render(role, subject_of(role), SETTINGS)
        named = {name for name in KNOWN_TOOLS if re.search(rf"\b{name}\b", text + prompt.user)}
        assert named == {tool.name for tool in role.tools}, role.key
        other = Settings(max_order_notional=1.0, stock_only=False, options_mode="both")
        assert prompt.base_instructions == render(role, subject_of(role, other), other).base_instructions == text
        assert in_request(role, subject_of(role)) == as_data(role, subject_of(role))


def test_constraints_stand_in_each_turn_of_every_role() -> None:
    other = Settings(
        stock_only=False, options_mode="both", allow_short=True, max_order_notional=2_500.0, max_symbol_share=0.05,
        market="yahoo",
    )  # fmt: skip
    for role in ROLES.values():
        text = render(role, subject_of(role), SETTINGS).user
        capital = "80,000.00 of buying power" if role.key == "trader" else "Capital: not stated here"
        limits = "10,000.00 an order, 10.0% of equity in one symbol, 24.0 hours"
        for told in ("stocks only, no options", "long only", limits, "replay of past prices", capital):
            assert told in text, (role.key, told)
        text = render(role, subject_of(role, other), other).user
        for told in ("options mode both", "Short sales: allowed", "2,500.00 an order, 5.0% of equity"):
            assert told in text, (role.key, told)
        assert "replay" not in text


@pytest.mark.parametrize(
    ("exchange", "currency", "says"),
    [
        ("XNYS", "USD", ""),
        (
            "XLON",
            "USD",
            " Prices are in GBP unless a listing says otherwise, days are those of London, and money is in USD.",
        ),
        (
            "CRYPTO",
            "USD",
            " Prices are in the second of a pair's two currencies unless a listing says otherwise, days end",
        ),
        (
            "XNYS",
            "EUR",
            " Prices are in USD unless a listing says otherwise, days are those of New York, and money is in E",
        ),
    ],
)
def test_a_model_is_told_of_another_exchange_or_currency(exchange: str, currency: str, says: str) -> None:
    settings = SETTINGS.model_copy(update={"exchange": exchange, "currency": currency})
    line = next(one for one in render(ROLES["quick"], subject_of(ROLES["quick"]), settings).user.splitlines()
                if one.startswith("- Market: "))  # fmt: skip
    told = line.partition("may be used.")[2]
    assert told.startswith(says)
    assert bool(told) == bool(says)


@pytest.mark.parametrize(
    ("stock_only", "mode", "expected"),
    [(True, "both", True), (False, "stocks-only", True), (False, "both", False), (False, "options-only", False)],
)
def test_stock_only_wins_over_the_mode(stock_only: bool, mode: Any, expected: bool) -> None:
    assert constraints(Settings(stock_only=stock_only, options_mode=mode))["stockOnly"] is expected


@given(st.text(alphabet=st.one_of(st.sampled_from('`\n\\"{}sub'), st.characters(codec="utf-8"))))
def test_no_text_leaves_the_block(text: str) -> None:
    block = subject_block({"thesis": text})
    assert block.count("`") == 6
    lines = block.split("\n")
    assert (lines[0], lines[-1], len(lines)) == ("```subject", "```", 3)
    assert json.loads(lines[1]) == {"thesis": text}


def test_a_subject_that_lacks_something_is_refused() -> None:
    subject = subject_of(ROLES["quick"])
    del subject["constraints"]["capital"]
    with pytest.raises(UsageError, match="capital"):
        render(ROLES["quick"], subject, SETTINGS)
    del subject["constraints"]
    with pytest.raises(UsageError, match="constraints"):
        render(ROLES["quick"], subject, SETTINGS)


def test_roles_have_the_approvals_of_the_setting() -> None:
    assert role_approvals(SETTINGS) == {}
    given = SETTINGS.model_copy(update={"role_approvals": "trader:command, quick:user_input,trader:permissions"})
    assert role_approvals(given) == {"trader": {"command", "permissions"}, "quick": {"user_input"}}
    for wrong in ("trader", "trader:shell", "nobody:command", "trader:"):
        with pytest.raises(SettingError, match=f"has '{wrong}'"):
            role_approvals(SETTINGS.model_copy(update={"role_approvals": wrong}))


HIGH, MEDIUM, SPECULATIVE = ScreenConfidence.HIGH, ScreenConfidence.MEDIUM, ScreenConfidence.SPECULATIVE
EQUITY, ETF, OPTION = Instrument.EQUITY, Instrument.ETF, Instrument.OPTION


def hit(symbol: str, lens: str, confidence: ScreenConfidence = MEDIUM, instrument: Instrument = EQUITY) -> Hit:
    return Hit(f"{symbol}-{lens}-{confidence}", lens, symbol, instrument, confidence, f"{lens} on {symbol}")


def order(hits: list[Hit], cap: int = 100) -> list[str]:
    return [candidate.symbol for candidate in rank(hits, cap)]


hits_strategy = st.lists(
    st.builds(
        Hit,
        id=st.uuids().map(str),
        lens=st.sampled_from(LENSES),
        symbol=st.sampled_from(["A", "B", "C", "D", "E", "F"]),
        instrument=st.sampled_from(Instrument),
        confidence=st.sampled_from(ScreenConfidence),
        thesis=st.just("t"),
    ),
    max_size=30,
)


@given(hits_strategy, st.randoms(use_true_random=False), st.integers(0, 8))
def test_the_order_of_hits_changes_nothing(hits: list[Hit], random: Any, cap: int) -> None:
    shuffled = list(hits)
    random.shuffle(shuffled)
    assert rank(shuffled, cap) == rank(hits, cap)


@given(hits_strategy, st.integers(0, 8))
def test_each_symbol_once_best_first_up_to_the_cap(hits: list[Hit], cap: int) -> None:
    ranked = rank(hits, cap)
    symbols = {one.symbol for one in hits}
    assert len(ranked) == min(cap, len(symbols))
    assert len({candidate.symbol for candidate in ranked}) == len(ranked)
    assert [candidate.rank for candidate in ranked] == list(range(1, len(ranked) + 1))
    keys = [(-candidate.score, candidate.symbol) for candidate in ranked]
    assert keys == sorted(keys)
    assert ranked == rank(hits, 100)[:cap]


@given(hits_strategy)
def test_every_hit_is_behind_its_candidate(hits: list[Hit]) -> None:
    ranked = rank(hits, 100)
    assert sorted(one.id for candidate in ranked for one in candidate.hits) == sorted(one.id for one in hits)
    for candidate in ranked:
        assert {one.symbol for one in candidate.hits} == {candidate.symbol}
        assert set(candidate.lenses) == {one.lens for one in candidate.hits}
        assert WEIGHTS[candidate.confidence] == max(WEIGHTS[one.confidence] for one in candidate.hits)


@given(hits_strategy, hits_strategy)
def test_a_further_hit_never_lowers_a_score(hits: list[Hit], more: list[Hit]) -> None:
    before = {candidate.symbol: candidate.score for candidate in rank(hits, 100)}
    after = {candidate.symbol: candidate.score for candidate in rank([*hits, *more], 100)}
    assert all(after[symbol] >= score for symbol, score in before.items())


def test_a_lens_counts_once_with_its_best_hit_and_ties_are_broken_by_symbol() -> None:
    assert order([hit("A", "technical", SPECULATIVE), hit("B", "technical", MEDIUM)]) == ["B", "A"]
    mixed = [hit("B", "technical", HIGH), hit("B", "options", SPECULATIVE)]
    assert order([*mixed, hit("A", "technical"), hit("A", "catalyst")]) == ["A", "B"]
    twice = [hit("A", "technical", SPECULATIVE), hit("A", "technical", HIGH)]
    assert [candidate.score for candidate in rank(twice, 9)] == [1.0]


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ([OPTION], OPTION),
        ([OPTION, EQUITY], EQUITY),
        ([OPTION, ETF], ETF),
        ([OPTION, OPTION, EQUITY], OPTION),
        ([ETF, EQUITY], EQUITY),
    ],
)
def test_the_instrument_is_what_most_lenses_name(named: list[Instrument], expected: Instrument) -> None:
    hits = [hit("A", lens, MEDIUM, instrument) for lens, instrument in zip(LENSES, named, strict=False)]
    assert rank(hits, 1)[0].instrument is expected


@given(st.lists(st.text(alphabet="ABC", min_size=1, max_size=4), max_size=400), st.integers(1, 150))
def test_shards_keep_every_symbol_in_order(symbols: list[str], size: int) -> None:
    cut = shards(symbols, size)
    assert [symbol for shard in cut for symbol in shard] == symbols
    assert len(cut) == -(-len(symbols) // size)
    lengths = [len(shard) for shard in cut]
    assert not lengths or (max(lengths) <= size and max(lengths) - min(lengths) <= 1 and min(lengths) > 0)


def named(symbol: str, instrument: Instrument = EQUITY) -> ScreenCandidate:
    return ScreenCandidate(symbol=symbol, instrument=instrument, confidence=MEDIUM, thesis="t")


def test_acceptance_drops_what_may_not_be_and_reports_it() -> None:
    output = ScreenOutput(candidates=[named(" aa "), named("ZZ"), named("AA"), named("BB", OPTION), named("CC")])
    kept, notes = accept(output, "technical", ["AA", "BB", "CC"], options_allowed=False)
    assert [candidate.symbol for candidate in kept] == ["AA", "CC"]
    assert len(notes) == 3
    assert any("ZZ is not in its shard" in note for note in notes)
    assert any("AA was named twice" in note for note in notes)
    assert any("BB was named as an option" in note for note in notes)
    allowed, _ = accept(output, "technical", ["AA", "BB", "CC"], options_allowed=True)
    assert [candidate.symbol for candidate in allowed] == ["AA", "BB", "CC"]


# What all subjects of a role have alike comes before what is of one: a provider that keeps prompts reads it once.


@pytest.mark.parametrize("key", sorted(ROLES))
def test_two_subjects_of_a_role_are_the_same_up_to_what_is_their_own(key: str) -> None:
    role = ROLES[key]
    one, other = subject_of(role, thesis="AA", symbol="AA"), subject_of(role, thesis="BBB", symbol="BBB")
    assert list(one) == list(other)
    alike = [one[name] == other[name] for name in one]
    assert alike == sorted(alike, reverse=True), list(one)
    first = {name: one[name] for name, same in zip(one, alike, strict=True) if same}
    assert "constraints" in first
    texts = [render(role, given, SETTINGS).user for given in (one, other)]
    assert orjson.dumps(as_data(role, first)).decode().removesuffix("}") in shared(texts)
    if role.keeps_thread:
        given = {**one, "memory": "before"}
        fresh = [render(role, given, SETTINGS, afresh=afresh).user for afresh in (False, True)]
        assert "- Market: replay." in shared(fresh)


def as_data(role: Role, subject: Mapping[str, Any]) -> dict[str, Any]:
    """Constraints are said in words to every role, and again as data where a policy reads them."""
    return {name: part for name, part in subject.items() if name != "constraints" or role.mode != "research"}


def shared(texts: list[str]) -> str:
    """What two texts begin with."""
    one, other = texts
    return one[: next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)]


def test_an_unknown_role_is_named() -> None:
    assert role_of("risk", SETTINGS) is ROLES["risk"]
    with pytest.raises(UsageError, match="no role 'astrologer'"):
        role_of("astrologer", SETTINGS)
