"""The memory of a prompt: a few lines made by code from stored reports, verdicts, hits and decisions.

A validator gets those of its symbol with each question. A thread that begins without history, such as one that took the
place of a thread grown too old or too long, gets them with its first: a validator those of its symbol, a lens its
earlier hits, the trader its last decisions.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Executable, Row, Select, String, bindparam, column, null, select, union_all, values
from sqlmodel import Session, col

from chordesk.agents.role_models import role_labels
from chordesk.agents.roles import roots, validators
from chordesk.models.answers import ReportStatus, Stance
from chordesk.models.questions import QuestionState
from chordesk.models.tables.board import Question, ThesisQuestion
from chordesk.models.tables.runs import Analysis, Decision, Report, Run, ScreenHit, Verdict
from chordesk.tools.market.prices import names_of
from chordesk.tools.model_tools.reports import seen_runs
from chordesk.tools.orders.drafting import last_notes
from chordesk.tools.questions.stored_questions import known_until
from chordesk.tools.registry import ToolContext

MEMORY_TOKENS = 400  # most tokens of a prompt's memory
NEWEST = 24  # reports of a symbol that are read: enough for every role of the last runs

# The rows of a prompt's memory: what earlier runs of an account on a market have stored, up to now.
#
# The statements are built once: composing SQL costs more than running it, and each turn runs them. Each reads the
# newest rows alone, in the order of an index.


class PastVerdict(NamedTuple):
    """A symbol's newest verdict. at: market time; plan: strategy and recommendation of the plan beside it, None without
    one, and the reasons why that is no select."""

    at: dt.datetime
    rating: str
    confidence: str
    plan: str | None
    reasons: list[str] | None

    def __str__(self) -> str:
        found = f"{self.at:%Y-%m-%d} verdict on the share {self.rating} ({self.confidence})"
        if self.plan is None:
            return found
        return f"{found}; plan {self.plan}" + (f" ({'; '.join(self.reasons)})" if self.reasons else "")


PastReport = Row[Any]  # a role's newest completed report, with the columns of `_reports`


class PastThesis(NamedTuple):
    """A thesis of a symbol with what came of it by now. at: market time; outcome: None while it is not known."""

    at: dt.datetime
    role: str
    probability: float
    sessions: int
    outcome: float | None
    returned: float | None
    median: float | None
    crossed_on: dt.date | None

    def __str__(self) -> str:
        said = (
            f"{self.at:%Y-%m-%d} {self.role}: {self.probability:.0%} to beat the median over {self.sessions} sessions"
        )
        if self.outcome is None:
            return f"{said}; not known yet"
        came = "true" if self.outcome > 0.5 else "false" if self.outcome < 0.5 else "level"
        figures = "" if self.returned is None else f" ({self.returned:+.1%} against {self.median:+.1%})"
        wrong = f"; its invalidation was reached on {self.crossed_on}" if self.crossed_on is not None else ""
        return f"{said}; came {came}{figures}{wrong}"


class PastHit(NamedTuple):
    """A lens's newest hit of a symbol. at: market time."""

    at: dt.datetime
    symbol: str
    confidence: str
    thesis: str


class PastDecision(NamedTuple):
    """A decision of the trader. at: market time of its run."""

    at: dt.datetime
    actions: list[dict[str, Any]]
    reasoning: str


def past_research(session: Session, context: ToolContext, symbol: str) -> tuple[list[PastVerdict], list[PastReport]]:
    verdicts: list[PastVerdict] = []
    reports: dict[str, PastReport] = {}
    for row in _rows(session, context, _past(), symbol=symbol):
        if row.role is None:
            verdicts.append(PastVerdict(row.market_at, row.verdict, row.confidence, row.summary, row.key_risks))
        else:
            reports.setdefault(row.role, row)
    return verdicts, list(reports.values())


def past_theses(session: Session, context: ToolContext, symbol: str) -> list[PastThesis]:
    """Return the newest theses of a symbol, those whose outcome is known first: of later than now none is."""
    now = known_until(context.clock)
    found = []
    for row in _rows(session, context, _theses(), symbol=symbol):
        known = row.state == QuestionState.RESOLVED and row.closes_at <= now
        facts = row.evidence if known and row.evidence else {}
        ended = (row.outcome if known else None, facts.get("return"), facts.get("median"))
        crossed = row.crossed_on if known else None
        said = (row.market_at, row.role, row.thesis["probability"], row.rule["sessions"])
        found.append(PastThesis(*said, *ended, crossed))
    return sorted(found, key=lambda one: one.outcome is None)[:THESES]


def past_hits(session: Session, context: ToolContext, lens: str, symbols: Sequence[str], most: int) -> list[PastHit]:
    found = _rows(session, context, _hits(symbols), lens=lens, most=most)
    return [PastHit(*row) for row in found]


def _rows(session: Session, context: ToolContext, statement: Executable, **asked: Any) -> Iterable[Any]:
    asked |= {"account": context.account, "market": context.market.name, "now": context.clock.now()}
    return session.connection().execute(statement, {**asked, "own": context.run_id or ""})


@cache
def _seen() -> tuple[Any, ...]:
    """Runs that a prompt may repeat. The run's own would depend on which of its steps was faster."""
    runs = seen_runs(bindparam("account"), bindparam("market"), bindparam("now"))
    return *runs, col(Run.id) != bindparam("own")


@cache
def _past() -> Executable:
    """Newest reports and, with a role of null, the newest verdict, in one statement: each turn runs it."""
    return union_all(_reports(), _verdict())


def _verdict() -> Select[Any]:
    plan = (col(Analysis.strategy) + " " + col(Analysis.recommendation)).label("summary")
    names = (col(Verdict.rating), col(Verdict.confidence), plan, col(Analysis.reasons))
    newest = (
        select(col(Verdict.market_at), null().label("role"), *names, null().label("author"))
        .join(Run, col(Run.id) == col(Verdict.run_id))
        .join(Analysis, col(Analysis.verdict_id) == col(Verdict.id), isouter=True)
        .where(*_seen(), col(Verdict.symbol) == bindparam("symbol"), col(Verdict.market_at) <= bindparam("now"))
        .order_by(col(Verdict.market_at).desc(), col(Verdict.created_at).desc())
        .limit(1)
        .subquery()
    )
    return select(*newest.c)


def _reports() -> Select[Any]:
    names = ("market_at", "role", "verdict", "confidence", "summary", "key_risks", "author")
    newest = (
        select(*(getattr(Report, name) for name in names))
        .join(Run, col(Run.id) == col(Report.run_id))
        .where(*_seen(), col(Report.symbol) == bindparam("symbol"), col(Report.status) == ReportStatus.COMPLETED)
        .where(col(Report.market_at) <= bindparam("now"))
        .order_by(col(Report.market_at).desc(), col(Report.created_at).desc())
        .limit(NEWEST)
        .subquery()
    )
    return select(*newest.c)


@cache
def _theses() -> Executable:
    names = (col(Question.state), col(Question.closes_at), col(Question.outcome), col(Question.evidence))
    return (
        select(col(Report.market_at), col(Report.role), col(Report.thesis), col(Question.rule), *names)
        .add_columns(col(ThesisQuestion.crossed_on))
        .join(ThesisQuestion, col(ThesisQuestion.report_id) == col(Report.id))
        .join(Question, col(Question.id) == col(ThesisQuestion.question_id))
        .join(Run, col(Run.id) == col(Report.run_id))
        .where(*_seen(), col(Report.symbol) == bindparam("symbol"), col(Report.market_at) <= bindparam("now"))
        .order_by(col(Report.market_at).desc(), col(Report.created_at).desc())
        .limit(NEWEST)
    )


def _hits(symbols: Sequence[str]) -> Executable:
    asked = values(column("symbol", String), name="asked").data([(symbol,) for symbol in symbols]).cte()
    newest = (
        select(col(ScreenHit.id))
        .join(Run, col(Run.id) == col(ScreenHit.run_id))
        .where(*_seen(), col(ScreenHit.lens) == bindparam("lens"), col(ScreenHit.symbol) == asked.c.symbol)
        .where(col(ScreenHit.market_at) <= bindparam("now"))
        .order_by(col(ScreenHit.market_at).desc(), col(ScreenHit.id).desc())
        .limit(1)
        .correlate(asked)
        .scalar_subquery()
    )
    names = ("market_at", "symbol", "confidence", "thesis")
    found = select(*(getattr(ScreenHit, name) for name in names)).where(
        col(ScreenHit.id).in_(select(newest).select_from(asked))
    )
    return found.order_by(col(ScreenHit.market_at).desc(), col(ScreenHit.id).desc()).limit(bindparam("most"))


@cache
def _decisions() -> Executable:
    return (
        select(col(Run.market_now), col(Decision.actions), col(Decision.reasoning))
        .join(Decision, col(Decision.run_id) == col(Run.id))
        .where(*_seen(), col(Decision.account) == bindparam("account"), col(Decision.status) == "completed")
        .order_by(col(Decision.created_at).desc())
        .limit(bindparam("most"))
    )


THESES = 3
POINTS = 3  # of a symbol's thesis
HITS = 6
DECISIONS = 3
# At most what a token takes in UTF-8, for scripts of which a character is a token and three bytes; English ones take
# four, and get a little less room than they might.
BYTES_A_TOKEN = 3
_OBJECTS: Mapping[str, int] = {Stance.REJECT: 0, Stance.CAUTION: 1, Stance.CONFIRMED: 2}
_FIRST = roots(validators())
_ROLES = (*(key for key in validators() if key not in _FIRST), *_FIRST)


def symbol_memory(session: Session, context: ToolContext, symbol: str) -> str | None:
    """Return the last verdict with its plan, the last theses and what came of them, one to three points of reports, the
    last major risk and the last trade note of a symbol, its earlier names included; None when there is none of them, or
    memory is off."""
    if _is_off(context):
        return None
    names = names_of(context.market, symbol)
    found = [past_research(session, context, name) for name in names]
    by_role = {report.role: report for _, reports in reversed(found) for report in reports}
    verdicts, reports = [one for verdicts, _ in found for one in verdicts][:1], list(by_role.values())
    notes = last_notes(session, context.settings, context.account, names, context.clock.now())
    lines = [str(one) for one in verdicts]
    lines += [str(one) for name in names for one in past_theses(session, context, name)][:THESES]
    lines += _points(reports, role_labels(context.settings))
    lines += _major_risk(reports)
    lines += [f"last trade note: {line}" for line in [line for name in names for line in notes.get(name, [])[-1:]][:1]]
    return fit(lines, MEMORY_TOKENS)


def lens_memory(session: Session, context: ToolContext, lens: str, symbols: Sequence[str]) -> str | None:
    if _is_off(context):
        return None
    found = past_hits(session, context, lens, symbols, HITS)
    lines = (f"{hit.at:%Y-%m-%d} put forward {hit.symbol} ({hit.confidence}): {hit.thesis}" for hit in found)
    return fit(lines, MEMORY_TOKENS)


def trader_memory(session: Session, context: ToolContext) -> str | None:
    """The oldest first; None when memory is off. Their results are in the notes by symbol."""
    if _is_off(context):
        return None
    found = reversed([PastDecision(*row) for row in _rows(session, context, _decisions(), most=DECISIONS)])
    lines = (f"{one.at:%Y-%m-%d} decided: {_actions(one.actions)}. {one.reasoning}" for one in found)
    return fit(lines, MEMORY_TOKENS)


def _is_off(context: ToolContext) -> bool:
    return context.settings.memory == "off"


def fit(lines: Iterable[str], tokens: int) -> str | None:
    """Return the lines as one text of at most so many tokens; None when they are empty. Whitespace within a line
    becomes single spaces. A text that is too long loses the ends of its longest lines, so that a short one after them
    is still whole."""
    flat = [line for line in (" ".join(line.split()) for line in lines) if line]
    most = tokens * BYTES_A_TOKEN
    room = most - max(len(flat) - 1, 0)  # line ends
    shares = _shares([_size(line) for line in flat], room)
    text = "\n".join(cut(line, share) for line, share in zip(flat, shares, strict=True))
    return cut(text, most) or None


def cut(text: str, most: int) -> str:
    """Return the text in at most so many bytes of UTF-8; an ellipsis stands for what is left out, if there is room for
    it."""
    if _size(text) <= most:
        return text
    end = "…" if most > _size("…") else ""
    return text.encode()[: max(most - _size(end), 0)].decode(errors="ignore").rstrip() + end


def _shares(sizes: Sequence[int], room: int) -> list[int]:
    """Return the share of each size in a room: all of it, but none more than the largest share that fits."""
    left, shares = room, [0] * len(sizes)
    for done, place in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[place] = min(sizes[place], max(left, 0) // (len(sizes) - done))
        left -= shares[place]
    return shares


def _size(text: str) -> int:
    return len(text.encode())


def _points(reports: Sequence[PastReport], labels: Mapping[str, str]) -> list[str]:
    newest = sorted(reports, key=lambda one: (one.role in _FIRST, *_newest(one)))
    return [f"{_head(one)}{_by(one, labels)}: {one.summary}" for one in newest[:POINTS]]


def _major_risk(reports: Sequence[PastReport]) -> list[str]:
    naming = [one for one in reports if one.key_risks]
    if not naming:
        return []
    worst = min(naming, key=lambda one: (_OBJECTS[one.verdict], *_newest(one)))
    return [f"{worst.market_at:%Y-%m-%d} major risk ({worst.role}): {worst.key_risks[0]}"]


def _newest(one: PastReport) -> tuple[float, int]:
    """Return a sort key: the newest first, those of one moment in the order of the roles."""
    return -one.market_at.timestamp(), _ROLES.index(one.role) if one.role in _ROLES else len(_ROLES)


def _head(one: PastReport) -> str:
    return f"{one.market_at:%Y-%m-%d} {one.role} {one.verdict} ({one.confidence})"


def _by(one: PastReport, labels: Mapping[str, str]) -> str:
    return f", by {one.author}" if one.author != labels.get(one.role) else ""


def _actions(actions: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{action.get('action')} {action.get('symbol')}" for action in actions) or "nothing"
