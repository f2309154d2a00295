"""The voices of the board, an entry each, and what a board takes of their forecasts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chordesk.agents.board.board_text import Board, one_line
from chordesk.models.board.forecasts import VoiceOutput, coherent
from chordesk.models.errors import SettingError
from chordesk.models.questions import CitedSignal, VoiceForecast
from chordesk.models.settings import Settings
from chordesk.models.text import inert

Archetype = Literal["synthesizer", "witness", "challenger", "fixer", "idealist", "pragmatist"]
ROLE_PREFIX = "voice_"
DESK = "desk"  # owner of the tools that no voice owns


@dataclass(frozen=True, slots=True)
class Voice:
    key: str
    archetype: Archetype
    faction: Literal["pattern", "ledger"]  # voices that look at the world alike, by which consensus is measured
    tool: str  # the one of the harvest that it owns

    @property
    def role(self) -> str:
        return f"{ROLE_PREFIX}{self.key}"

    @property
    def prompt(self) -> str:
        return f"voices/{self.key}.md"


VOICES: Mapping[str, Voice] = {
    voice.key: voice
    for voice in (
        Voice("weaver", "synthesizer", "pattern", "temporal"),
        Voice("witness", "witness", "ledger", "divergence"),
        Voice("challenger", "challenger", "pattern", "events"),
        Voice("sizer", "fixer", "ledger", "portfolio"),
        Voice("mediator", "idealist", "pattern", "funding"),
        Voice("auditor", "pragmatist", "ledger", "factors"),
    )
}


def owner_of(tool: str) -> str:
    return next((voice.key for voice in VOICES.values() if voice.tool == tool), DESK)


def voice_of(role: str) -> str:
    return role.removeprefix(ROLE_PREFIX)


def voices_of(settings: Settings) -> tuple[Voice, ...]:
    return chosen(settings.voices) if settings.voices is not None else tuple(VOICES.values())


def chosen(keys: Iterable[str]) -> tuple[Voice, ...]:
    wanted = tuple(keys)
    for key in wanted:
        if key not in VOICES:
            raise SettingError(f"voices (DESK_VOICES) has {key!r}", remedy=f"choose among {', '.join(VOICES)}")
    return tuple(voice for key, voice in VOICES.items() if key in wanted)


def turns_of_screen(params: Mapping[str, Any], settings: Settings, held: int) -> dict[str, int]:
    """Return the most turns of each voice in a screen."""
    return {voice.role: settings.rounds for voice in voices_of(settings) if settings.rounds}


BECAUSE_CHARS, CLAIM_CHARS, LABEL_CHARS = 2000, 600, 64
MOST_CITATIONS, MOST_CHAIN = 20, 10


@dataclass(frozen=True, slots=True)
class AcceptedOutput:
    """Forecasts in their order, each question once, stakes at most 1 together, exclusive questions coherent; a note for
    each change. stated: probabilities as the voice gave them, by question."""

    forecasts: tuple[VoiceForecast, ...]
    notes: tuple[str, ...] = ()
    stated: Mapping[str, float] = field(default_factory=dict)


def accept(output: VoiceOutput, board: Board) -> AcceptedOutput:
    """Return what a board takes of a voice's answer.

    Left out: a question that is not on the board, one without a baseline, and each further forecast of a question (the
    first is the answer; a choice of the later or better one would let a voice hold two). Texts are cut at their bounds.
    Stakes above 1 together are divided by their sum, probabilities of exclusive questions as `coherent` says.
    """
    notes: list[str] = []
    taken: dict[str, VoiceForecast] = {}
    for one in output.forecasts:
        why = _refused(one, board, taken)
        if why is not None:
            notes.append(f"{one_line(one.question, LABEL_CHARS) or 'a question without a label'}: {why}")
        else:
            taken[one.question] = _bounded(one, notes)
    stated = {label: one.probability for label, one in taken.items()}
    held = coherent(stated, board.questions)
    changed = [label for label in stated if held[label] != stated[label]]
    if changed:
        notes.append(f"{', '.join(changed)}: exclude each other; their probabilities are divided by their sum")
    whole = [one.model_copy(update={"probability": held[label]}) for label, one in taken.items()]
    return AcceptedOutput(_normalised(whole, notes), tuple(notes), stated)


def _refused(one: VoiceForecast, board: Board, taken: dict[str, VoiceForecast]) -> str | None:
    question = board.question(one.question)
    if question is None:
        return "no question of this board; left out"
    if question.baseline is None:
        return "it has no baseline and is not forecast; left out"
    if one.question in taken:
        return "forecast twice; the first counts"
    return None


def _bounded(one: VoiceForecast, notes: list[str]) -> VoiceForecast:
    if len(one.citations) > MOST_CITATIONS:
        notes.append(f"{one.question}: {len(one.citations)} citations; the first {MOST_CITATIONS} are kept")
    for what, text in (("a reason", one.because), ("a change", one.change or "")):
        if len(text) > BECAUSE_CHARS:
            notes.append(f"{one.question}: {what} of {len(text)} characters; {BECAUSE_CHARS} are kept")
    long = sum(len(cited.claim) > CLAIM_CHARS for cited in one.citations[:MOST_CITATIONS])
    if long:
        notes.append(f"{one.question}: {long} claims above {CLAIM_CHARS} characters are cut")
    citations = [
        CitedSignal(signal=_kept(cited.signal, LABEL_CHARS), stance=cited.stance, claim=_kept(cited.claim, CLAIM_CHARS))
        for cited in one.citations[:MOST_CITATIONS]
    ]
    return VoiceForecast(
        question=one.question,
        probability=one.probability,
        stake=one.stake,
        because=_kept(one.because, BECAUSE_CHARS),
        change=None if one.change is None else _kept(one.change, BECAUSE_CHARS) or None,
        citations=citations,
        chain=[_kept(label, LABEL_CHARS) for label in one.chain[:MOST_CHAIN]],
    )


def _kept(text: str, most: int) -> str:
    """Return a text as a database takes it: without characters that are not seen, lines kept."""
    return inert(text[:most], instead="").strip()


def _normalised(forecasts: list[VoiceForecast], notes: list[str]) -> tuple[VoiceForecast, ...]:
    total = math.fsum(one.stake for one in forecasts)
    if total <= 1 + 1e-9:
        return tuple(forecasts)
    notes.append(f"stakes of {total:.2f} together; divided by it")
    return tuple(one.model_copy(update={"stake": one.stake / total}) for one in forecasts)
