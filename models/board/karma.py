"""Karma: the two sums of a voice, and what an entry of each is for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class KarmaSum(StrEnum):
    CONDUCT = "conduct"  # how it uses the board
    SKILL = "skill"  # 100 times its alpha, an entry a resolved question


class KarmaReason(StrEnum):
    ISOLATED = "isolated"  # cited no tool although a foreign signal was live
    OWN_TOOL = "own_tool"  # cited its own tool alone
    SYNTHESIS = "synthesis"  # cited two tools
    DEEP_SYNTHESIS = "deep_synthesis"  # cited three tools or more
    CHAIN = "chain"  # connected two tools on one question and moved
    COPIED = "copied"  # a citation in the signal's own text; it is void
    DISAGREED = "disagreed"  # was nearer the outcome than the signal it disagreed with
    ALPHA = "alpha"  # of a resolved question


# Amounts of conduct; skill is computed.
CONDUCT: Mapping[KarmaReason, float] = {
    KarmaReason.ISOLATED: -1.0,
    KarmaReason.OWN_TOOL: 0.0,
    KarmaReason.SYNTHESIS: 0.5,
    KarmaReason.DEEP_SYNTHESIS: 1.0,
    KarmaReason.CHAIN: 1.0,
    KarmaReason.COPIED: -0.5,
    KarmaReason.DISAGREED: 0.5,
}
SKILL_OF_ALPHA = 100.0
