"""What a role reads before it has written a word, in tokens of `tools.toolsets.tokens_of`. A part that grows does so in
every turn, and in no other test: what is spent more is written here, with a reason in the commit."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path

from chordesk.agents.prompting import answers_block, fixed_tokens, render
from chordesk.agents.roles import ROLES
from chordesk.agents.runner import Assignment, first_answers
from chordesk.agents.subjects import screener_subject, validator_subject
from chordesk.models.settings import Settings
from chordesk.tools.market.factory import build_market
from chordesk.tools.market.universe import resolve_universe
from chordesk.tools.registry import ToolContext
from chordesk.tools.toolsets import TurnTools, tokens_of

# Instructions, tools and schema; the question; the answers that code asks for, on one name or on a shard of 131.
KNOWN: dict[str, tuple[int, int, int]] = {
    "screener_technical": (2830, 688, 13637),
    "screener_fundamental": (2807, 688, 2728),
    "screener_catalyst": (2811, 687, 8583),
    "screener_options": (3362, 687, 9554),
    "screener_unified": (2855, 687, 18117),
    "quick": (2350, 228, 288),
    "overview": (3220, 228, 563),
    "fundamentals": (2928, 228, 515),
    "risk": (4369, 228, 711),
    "catalyst": (3079, 228, 685),
    "skeptic": (3269, 233, 841),
}
MORE, LESS = 1.02, 0.9  # of what is known: a part that got shorter lowers its bound


def test_no_part_of_a_question_grows_unnoticed(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, replay_date=dt.date(2010, 8, 12))
    market = build_market(settings)
    context = ToolContext(market, market.clock, None, settings, "paper", None)
    names = resolve_universe("sp500", market)[:131]
    found = {}
    for key, role in ROLES.items():
        if role.first is None or key == "trader":
            continue
        brief = (
            screener_subject(key.removeprefix("screener_"), 0, names, settings)
            if role.mode == "screener"
            else {**validator_subject("IBM", "equity", [], settings), "theses": [], "pooled": {}}
        )
        tools = TurnTools(role.tools, context, tag="kqz")
        given = asyncio.run(first_answers(Assignment("r", "s", 1, role, "IBM", brief), tools))
        asked = render(role, {"memory": None, **brief}, settings).user
        found[key] = (fixed_tokens(role, settings), tokens_of(asked), tokens_of(answers_block(given)))
    wrong = {
        key: parts
        for key, parts in found.items()
        if not all(LESS * old <= new <= MORE * old for old, new in zip(KNOWN.get(key, (0, 0, 0)), parts, strict=True))
    }
    assert wrong == {}
    assert found.keys() == KNOWN.keys()
