"""The citations of a forecast: code decides whether one counts, and states why where it does not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from chordesk.agents.board.board import Board
from chordesk.agents.board.citing.copying import RUN, Copying, compare
from chordesk.agents.board.citing.figures import has_one_of, unsupported
from chordesk.agents.board.citing.naming import names_signal
from chordesk.agents.board.texts import one_line
from chordesk.models.board.forecasts import CitationStance, CitedSignal, VoicePosition
from chordesk.models.board.questions import BoardQuestion
from chordesk.models.board.signals import BoardSignal, SignalState, concerns

_STANCES: tuple[CitationStance, ...] = ("build", "disagree", "quote")
_MOST_NAMED = 3  # figures in a reason
_FIGURE_CHARS = 24


@dataclass(frozen=True, slots=True)
class JudgedCitation:
    """A citation with code's decision. ordinal: of the citation in its forecast; signal: None where the board has no
    such label; reason: why it does not count, or a note on one that does; copied: the copy score, None without a
    signal's own text; quoted: whether it is void for it."""

    voice: str
    round: int
    question: str
    ordinal: int
    cited: CitedSignal
    signal: BoardSignal | None
    counts: bool
    reason: str | None = None
    copied: float | None = None
    quoted: bool = False

    @property
    def tool(self) -> str | None:
        return self.signal.tool if self.signal else None


def judge(position: VoicePosition, board: Board) -> list[JudgedCitation]:
    """Return each citation of a forecast, in its order, with whether it counts.

    One counts when its signal is on the board, is live and concerns the question, its claim names something of the
    signal, has no figure that the signal and the question lack, and is not copied. A signal counts once a forecast;
    which citation of it does, and all that follows, does not depend on their order.
    """
    question = board.question(position.forecast.question)
    drafts = [_judged(position, at, one, question, board) for at, one in enumerate(position.forecast.citations)]
    by_signal: dict[str, list[JudgedCitation]] = defaultdict(list)
    for draft in drafts:
        if draft.signal is not None:
            by_signal[draft.signal.label].append(draft)
    decided = {one.ordinal: one for group in by_signal.values() for one in _once(group)}
    return [decided.get(draft.ordinal, draft) for draft in drafts]


def _judged(
    position: VoicePosition, at: int, cited: CitedSignal, question: BoardQuestion | None, board: Board
) -> JudgedCitation:
    signal = board.signal(cited.signal)
    draft = JudgedCitation(position.voice, position.round, position.forecast.question, at, cited, signal, False)
    if signal is None:
        return replace(draft, reason="no such signal on this board")
    copying = compare(cited.claim, signal.headline)
    draft = replace(draft, copied=copying.share, quoted=signal.state is SignalState.LIVE and copying.quoted)
    why = _refused(position, cited, signal, question, board)
    if why is not None:
        # What is void for another reason is no less a copy.
        return replace(draft, reason=why)
    if draft.quoted:
        return replace(draft, reason=_copied(copying.share))
    return replace(draft, counts=True, reason=_note(copying))


def _refused(
    position: VoicePosition, cited: CitedSignal, signal: BoardSignal, question: BoardQuestion | None, board: Board
) -> str | None:
    if question is None:
        return "its question is not on this board"
    if signal.state is not SignalState.LIVE:
        return f"the signal is {signal.state.value}"
    if not concerns(signal, question.subjects, question.label):
        return f"the signal does not concern {question.label}"
    if not cited.claim.strip() or not _names(cited, signal, question, position.forecast.citations, board):
        return "the claim names nothing of the signal"
    lacking = unsupported(cited.claim, signal, question, position.forecast.probability, _labels(board))
    if lacking:
        named = ", ".join(one_line(one, _FIGURE_CHARS) for one in lacking[:_MOST_NAMED])
        return f"not in the signal's data: {named}"
    return None


def _once(group: Sequence[JudgedCitation]) -> list[JudgedCitation]:
    """Return the citations of one signal, of which one counts at most; a headline in parts over several is copied."""
    signal = group[0].signal
    assert signal is not None, "a group is of a signal on the board"
    counting = sorted((one for one in group if one.counts), key=_canonical)
    together = compare(" ".join(one.cited.claim for one in counting), signal.headline)
    in_parts = len(counting) > 1 and together.quoted
    copies = " ".join(sorted(one.cited.claim for one in group if one.quoted))
    decided, taken = {}, False
    for one in counting:
        if in_parts or _adds(one.cited.claim, copies, signal.headline):
            why = f"{_copied(together.share)} in parts" if in_parts else "a part of a copied headline"
            decided[one.ordinal] = replace(one, counts=False, reason=why, quoted=True)
        elif taken:
            why = "the signal is cited before on this question"
            decided[one.ordinal] = replace(one, counts=False, reason=why)
        else:
            taken = True
    return [decided.get(one.ordinal, one) for one in group]


def _adds(claim: str, copies: str, headline: str) -> bool:
    """Return whether a claim beside copies of a headline has a run of terms more of it."""
    if not copies:
        return False
    return compare(f"{copies} {claim}", headline).common - compare(copies, headline).common >= RUN


def _canonical(one: JudgedCitation) -> tuple[int, str, int]:
    """Return a sort key by content, so that another order of the citations changes nothing."""
    return _STANCES.index(one.cited.stance), one.cited.claim, one.ordinal


def _names(
    cited: CitedSignal, signal: BoardSignal, question: BoardQuestion, others: Sequence[CitedSignal], board: Board
) -> bool:
    """Return whether a claim has a term or figure of its signal; one sentence for several tools has to name each."""
    alike = {one.signal for one in others if one.claim == cited.claim and one.signal != signal.label}
    rivals = [found for label in sorted(alike) if (found := board.signal(label)) and found.tool != signal.tool]
    return names_signal(cited.claim, signal, question, rivals) or (
        not rivals and has_one_of(cited.claim, signal, _labels(board))
    )


def _labels(board: Board) -> list[str]:
    return [*board.questions_by_label, *board.signals_by_label, *(s for one in board.questions for s in one.subjects)]


def _copied(score: float) -> str:
    return f"copied: {score:.2f} of the headline"


def _note(copying: Copying) -> str | None:
    return f"near the headline: {copying.score:.2f} of it" if copying.near else None
