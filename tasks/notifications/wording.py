"""Texts of messages: a title, and a sentence for each notice. All of it is the desk's own, with plain facts in it."""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from chordesk.models import features
from chordesk.models.descriptions import said
from chordesk.models.errors import DatabaseUnsound
from chordesk.models.events import DESK
from chordesk.models.features import NoticeWords
from chordesk.models.home import AWAY_REMEDY
from chordesk.models.kinds import OF_NONE
from chordesk.models.notice_channels import SUMMARY, NoticeKind
from chordesk.models.shortages import HOME, SOUNDNESS
from chordesk.models.states import RunState, TradingState
from chordesk.models.tables.runtime import Notice
from chordesk.models.text import SHORT_ID, span, without_secrets
from chordesk.tools.decimals import money
from chordesk.tools.decimals import plain as figure

LONGEST = 160
_KEPT = frozenset(" .,;:()%+-'$")
# A dot before a letter would be a host, a colon an emoji, to some reader of the text.
_HOST = re.compile(r"\.(?=[^\W\d_])")
_COLON = re.compile(r":(?=[^\W\d_])")
# Account numbers of brokers: six digits or more, with letters around them or without.
_NUMBER = re.compile(r"\b(?=\w*\d{6})\w+\b")
_SPACES = re.compile(r"\s+")
# A suffix of one letter is a class of shares; one of two or more could be a domain.
_SYMBOL = re.compile(r"[A-Za-z0-9^=/ -]{1,40}(?:\.[A-Za-z])?")
HIDDEN_NUMBER = "(number left out)"


def quoted(text: object, longest: int = LONGEST) -> str:
    """Return untrusted text as one line of letters, digits and plain punctuation, cut where it gets long. Letters of
    any script stay; signs that are markup, a mention or part of a link anywhere do not."""
    known = without_secrets(unicodedata.normalize("NFKC", str(text or "")))
    lettered = "".join(one if one.isalnum() or one in _KEPT else " " for one in known)
    broken = _COLON.sub(": ", _HOST.sub(". ", lettered)).replace("--", "-")
    hidden = _NUMBER.sub(lambda found: HIDDEN_NUMBER, broken)
    shown = _SPACES.sub(" ", hidden).strip()
    return shown if len(shown) <= longest else f"{shown[: longest - 3].rstrip()}..."


def symbol(text: object) -> str:
    """Return a symbol, or the code of a contract, if it is one; else what of it is plain text."""
    given = str(text or "")
    return given if _SYMBOL.fullmatch(given) else quoted(given, 40)


LINES = 10  # sentences in one message
_SIDES = {"buy": "Bought", "sell": "Sold"}
_STATES: Mapping[str, str] = {
    RunState.DONE: "is done",
    RunState.PARTIAL: "is partial",
    RunState.FAILED: "has failed",
    RunState.STOPPED: "was stopped",
}

# Title of one notice, and of several.
_TITLES: Mapping[str, tuple[str, str]] = {
    NoticeKind.ORDER_WAITING: ("An order waits for a person", "orders wait for a person"),
    NoticeKind.REQUEST_WAITING: ("A model's request waits for a person", "requests of models wait for a person"),
    NoticeKind.HALT: ("Trading is halted or limited", "halts or limits of trading"),
    NoticeKind.RESUME: ("Trading goes on", "accounts trade again"),
    NoticeKind.ORDER_UNKNOWN: ("An order is unknown", "orders are unknown"),
    NoticeKind.ORDER_REJECTED: ("An order was rejected", "orders were rejected"),
    NoticeKind.FILL: ("An order was filled", "fills"),
    NoticeKind.PLAN_REVIEW: ("A position is to be reviewed", "reviews of positions"),
    NoticeKind.RUN_FINISHED: ("A run has ended", "runs have ended"),
    NoticeKind.RUN_PARTIAL: ("A run is partial", "runs are partial"),
    NoticeKind.RUN_FAILED: ("A run has failed", "runs have failed"),
    NoticeKind.WORKER_LOST: ("A worker was lost", "workers were lost"),
    NoticeKind.MODEL_PARKED: ("A model is parked", "times a model was parked"),
    NoticeKind.ROGUE_CALL: ("A model called a tool that acts", "calls of tools that act, by models"),
    NoticeKind.BUDGET_REACHED: ("A budget is used up", "budgets are used up"),
    NoticeKind.FORGED: ("Messages are forged", "times messages were forged"),
    NoticeKind.BACKUP_FAILED: ("A backup cannot be restored", "trials of backups failed"),
    NoticeKind.ROOM: ("Room of a machine", "changes of a machine's room"),
    NoticeKind.PROCESS: ("A process of the desk", "changes of the desk's processes"),
}


@dataclass(frozen=True, slots=True)
class Wording:
    """page: address of the page, None where there is none to link to."""

    zone: ZoneInfo
    page: str | None

    def line(self, notice: Notice) -> str:
        """Return the sentence of a notice, with its time and a link to where a person can look at it."""
        worded = _SENTENCES.get(NoticeKind(notice.kind))
        sentence = worded(notice, self) if worded is not None else _of_feature(notice)
        return f"{self.time(notice.occurred_at)}: {sentence}{self._link(notice)}"

    def time(self, at: dt.datetime) -> str:
        local = at.astimezone(self.zone)
        return f"{local:%b} {local.day}, {local:%H:%M %Z}"

    def _link(self, notice: Notice) -> str:
        way = _way(notice)
        return f"\n{self.page.rstrip('/')}/#{way}" if self.page is not None and way else ""


def title(tally: Mapping[str, int]) -> str:
    if len(tally) > 1:
        return f"Desk: {sum(tally.values())} more events"
    ((kind, count),) = tally.items()
    one, several = _TITLES.get(kind) or _titles_of_feature(kind)
    return f"Desk: {one}" if count == 1 else f"Desk: {count} {several}"


def _titles_of_feature(kind: str) -> tuple[str, str]:
    words: NoticeWords | None = NoticeKind.of_features().get(kind)
    named = f"{kind.replace('_', ' ')}, {OF_NONE}"
    return (quoted(words.one), quoted(words.several)) if words is not None else (named, f"times {named}")


def _of_feature(notice: Notice) -> str:
    """Return the sentence of a kind that a feature has; of one that is gone or fails, its kind and its subject."""
    kind, plain = notice.kind.replace("_", " "), f": {quoted(notice.subject, 120)}" if notice.subject else ""
    words: NoticeWords | None = NoticeKind.of_features().get(notice.kind)
    if words is None:
        return f"{kind}, {OF_NONE}{plain}"
    if not words.sentence:
        return f"{quoted(words.one)}{plain}"
    try:
        found = features.part("notice_kinds", notice.kind, words.sentence, kind=Callable)(notice)
        return quoted(found, 300)
    except (Exception, SystemExit) as error:
        return f"{quoted(words.one)}{plain}, and its words fail: {quoted(said(error), 120)}"


def body(tally: Mapping[str, int], lines: Sequence[str], kind: str) -> str:
    """Return the text of a message. lines: the first sentences, of which LINES are shown. kind: of the message."""
    parts = list(lines[:LINES])
    if kind == SUMMARY:
        most_first = sorted(tally.items(), key=lambda pair: (-pair[1], pair[0]))
        counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in most_first)
        parts.insert(0, f"{sum(tally.values())} more, held back until now: {counts}")
    if (left := sum(tally.values()) - len(lines[:LINES])) > 0:
        parts.append(f"and {left} more; see: desk notify list")
    return "\n".join(parts)


_OF_FLEET = frozenset(
    {
        NoticeKind.WORKER_LOST, NoticeKind.MODEL_PARKED, NoticeKind.FORGED, NoticeKind.BACKUP_FAILED, NoticeKind.ROOM,
        NoticeKind.PROCESS,
    }
)  # fmt: skip


def _way(notice: Notice) -> str:
    """Return the view of the page where a person looks at a notice. None of them decides anything by itself."""
    kind, order = NoticeKind(notice.kind), str(notice.facts.get("order") or "")
    if kind in (NoticeKind.ORDER_WAITING, NoticeKind.REQUEST_WAITING):
        return "/approvals"
    if kind in (NoticeKind.HALT, NoticeKind.RESUME):
        return "/account"
    if kind in _OF_FLEET:
        return "/fleet"
    if order.isalnum() or order.replace("-", "").isalnum():
        return f"/orders/{order}"
    return f"/runs/{notice.run_id}" if notice.run_id != DESK and notice.run_id.isalnum() else ""


def _order_waiting(notice: Notice, wording: Wording) -> str:
    facts = notice.facts
    until = wording.time(dt.datetime.fromisoformat(str(facts["expires_at"])))
    amount = money(float(facts["notional"]), facts.get("currency"))
    return f"an order on {symbol(facts['symbol'])} for {amount} waits for a person until {until}; see: desk approvals"


def _request_waiting(notice: Notice, wording: Wording) -> str:
    until = wording.time(dt.datetime.fromisoformat(str(notice.facts["expires_at"])))
    who = "graph" if notice.facts.get("kind") == "interrupt" else "model"
    return f"a {who} of run {_short(notice.run_id)} waits for a person until {until}; see: desk approvals"


def _halt(notice: Notice, _: Wording) -> str:
    facts = notice.facts
    if facts.get("bare"):
        where, what = quoted(facts.get("account"), 40), quoted(facts["bare"], 60)
        return f"account {where} is halted, and no stop stands for {what}: none is placed until it trades again"
    what = "is halted" if facts.get("state") == TradingState.HALTED else "may only give exposure back"
    return f"account {quoted(facts.get('account'), 40)} {what}, by {quoted(facts.get('by'), 60)}{_why(facts)}"


def _resume(notice: Notice, _: Wording) -> str:
    facts = notice.facts
    return f"account {quoted(facts.get('account'), 40)} trades again, by {quoted(facts.get('by'), 60)}{_why(facts)}"


def _order_unknown(notice: Notice, _: Wording) -> str:
    return f"{_order(notice.facts)}: sent, and the broker gave no answer; the desk goes on asking for it"


def _order_rejected(notice: Notice, _: Wording) -> str:
    return f"{_order(notice.facts)}: rejected by the broker{_why(notice.facts)}"


def _fill(notice: Notice, _: Wording) -> str:
    facts = notice.facts
    price = money(float(facts["price"]), facts.get("currency"))
    what = f"{figure(float(facts['quantity']))} {symbol(facts['symbol'])} at {price}"
    why = f", for its plan: {quoted(facts['exit'], 40)}" if facts.get("exit") else ""
    return f"{_SIDES.get(str(facts.get('side')), 'Filled')} {what} on {quoted(facts.get('account'), 40)}{why}"


def _plan_review(notice: Notice, _: Wording) -> str:
    facts = notice.facts
    held = f"{symbol(notice.subject)} on {quoted(facts.get('account'), 40)}"
    if facts.get("written"):
        return f"{held}: {quoted(facts['written'])}"
    return f"{held}: the review of its plan is due since {facts.get('review')}; its research is due with it"


def _run(notice: Notice, _: Wording) -> str:
    facts = notice.facts
    notes = facts.get("notes") or []
    why = f": {quoted(notes[-1])}" if notes and facts.get("state") != RunState.DONE else ""
    state = _STATES.get(str(facts.get("state")), "has ended")
    return f"{quoted(facts.get('kind'), 40)} {_short(notice.run_id)} {state}{why}"


def _worker_lost(notice: Notice, _: Wording) -> str:
    name = notice.subject.partition(":")[0].replace("@", " on ")
    return f"worker {quoted(name, 80)} renews its steps no more; they are tried elsewhere"


def _model_parked(notice: Notice, _: Wording) -> str:
    seconds = float(notice.facts.get("seconds") or 0)
    until = notice.facts.get("until")
    ends = f" until {quoted(until, 40)}" if until else ""
    return f"no turn starts on {quoted(notice.subject, 60)} for {span(seconds)}{ends}: its provider's limit is met"


def _rogue_call(notice: Notice, _: Wording) -> str:
    facts = notice.facts
    who = f"{quoted(facts.get('role'), 40)} on {quoted(facts.get('subject'), 40)}, run {_short(notice.run_id)}"
    return f"{who}, called {quoted(facts.get('tool'), 60)}: nothing was done, and its orders wait for a person"


def _budget_reached(notice: Notice, _: Wording) -> str:
    facts = notice.facts
    of = f"run {_short(notice.run_id)}" if facts.get("scope") == "run" else "the UTC day"
    amounts = f"{int(facts['used']):,} of {int(facts['limit']):,} tokens"
    return f"{of} has used {amounts}; turns are skipped"


def _forged(notice: Notice, _: Wording) -> str:
    facts = notice.facts
    what = f"{facts['count']} messages that the desk did not sign: {quoted(facts['why'], 80)}"
    return f"{quoted(notice.subject, 60)} refused {what}. Somebody else writes to Redis, or a process has another key"


def _backup_failed(notice: Notice, _: Wording) -> str:
    what = (
        f"the weekly trial could not restore {quoted(notice.facts['place'], 120)}: {quoted(notice.facts['why'], 200)}"
    )
    return f"{what}. Make a new backup, and try it: `desk backup PLACE --verify`"


def _shortage(notice: Notice, _: Wording) -> str:
    facts = notice.facts
    of = " ".join(quoted(part, 120) for part in (facts["what"], facts.get("where")) if part)
    if facts["what"] == SOUNDNESS:
        if facts["state"] == "enough":
            return f"{quoted(notice.subject, 60)}: the database is sound again"
        told = f"{quoted(notice.subject, 60)}: {quoted(facts['where'], 200)}"
        return f"{told}. No step is taken and no order is sent. {DatabaseUnsound.remedy.capitalize()}"
    if facts["what"] == HOME:
        if facts["state"] == "enough":
            return f"{quoted(notice.subject, 60)}: the data folder is back, and the desk goes on"
        told = f"{quoted(notice.subject, 60)}: {quoted(facts['where'], 200)}"
        return f"{told}. No step is taken and no order is sent. {AWAY_REMEDY.capitalize()}"
    if facts["state"] == "enough":
        return f"{quoted(notice.subject, 60)} has room again: {of}"
    return f"{quoted(notice.subject, 60)} has {_ROOM[facts['state']]}: {of}"


_ROOM = {"short": "little room", "out": "no room, and takes no step until there is some"}


def _process(notice: Notice, _: Wording) -> str:
    facts = notice.facts
    named = f"{quoted(notice.subject, 60)} (process {int(facts['pid'])})"
    if facts["state"] == "gone":
        return f"{named} has ended"
    if facts["state"] == "runs":
        return f"{named} runs again"
    why = f": {quoted(facts['why'], 120)}" if facts.get("why") else ""
    return f"{named} is {quoted(facts['state'], 20)} for {span(float(facts['seconds']))}{why}"


_SENTENCES: Mapping[NoticeKind, Callable[[Notice, Wording], str]] = {
    NoticeKind.ORDER_WAITING: _order_waiting,
    NoticeKind.REQUEST_WAITING: _request_waiting,
    NoticeKind.HALT: _halt,
    NoticeKind.RESUME: _resume,
    NoticeKind.ORDER_UNKNOWN: _order_unknown,
    NoticeKind.ORDER_REJECTED: _order_rejected,
    NoticeKind.FILL: _fill,
    NoticeKind.PLAN_REVIEW: _plan_review,
    NoticeKind.RUN_FINISHED: _run,
    NoticeKind.RUN_PARTIAL: _run,
    NoticeKind.RUN_FAILED: _run,
    NoticeKind.WORKER_LOST: _worker_lost,
    NoticeKind.MODEL_PARKED: _model_parked,
    NoticeKind.ROGUE_CALL: _rogue_call,
    NoticeKind.BUDGET_REACHED: _budget_reached,
    NoticeKind.FORGED: _forged,
    NoticeKind.BACKUP_FAILED: _backup_failed,
    NoticeKind.ROOM: _shortage,
    NoticeKind.PROCESS: _process,
}


def _order(facts: Mapping[str, Any]) -> str:
    quantity = facts.get("quantity")
    amount = f" {figure(float(quantity))}" if quantity is not None else ""
    side = quoted(facts.get("side") or facts.get("action") or "order", 12)
    return f"{side}{amount} {symbol(facts.get('symbol'))} on {quoted(facts.get('account'), 40)}"


def _why(facts: Mapping[str, Any]) -> str:
    return f": {quoted(facts['why'])}" if facts.get("why") else ""


def _short(run_id: str) -> str:
    return run_id[:SHORT_ID] if run_id.isalnum() else quoted(run_id, SHORT_ID)
