"""What people write: each update is acted on once, in one transaction with its record and what is written back.

A process that ends before that transaction does has done nothing, and the messenger gives the update again; one that
ends after it finds the record, and the answer among what is to be sent. A halt alone is done before: it must not wait
for a database, and a second one changes nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import structlog
from sqlmodel import Session, col, select

from chordesk.models.database.lookup import ACTS, by_prefix
from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError, NotConfigured, UsageError
from chordesk.models.messengers.tables import MessengersBot, MessengersButton, MessengersMessage, MessengersPerson
from chordesk.models.messengers.tables import MessengersUpdate as Update
from chordesk.models.orders import BrokerPosition
from chordesk.models.settings import Settings
from chordesk.models.states import ApprovalState
from chordesk.models.tables.columns import absent_insert, utcnow
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Run
from chordesk.tasks.approval_requests import WaitingOrder, answer_in, asked_of, waiting
from chordesk.tasks.messengers import cards, confirming, messages, people
from chordesk.tasks.messengers.people import Scope
from chordesk.tasks.notifications.wording import quoted

log = structlog.get_logger(__name__)
FRESH = dt.timedelta(minutes=2)  # what approves or denies is at most so old
CLOCKS_DIFFER = dt.timedelta(minutes=1)
MOST_TEXT = 20_000
RECEIVED = "received"  # what an update is that was kept and not acted on yet
MOST_QUESTIONS = 30  # that wait for one person
_STOP_AT_ONCE = "/stop RUN: end a run\n"
HELP = f"""/status /holdings /orders /changes /cost /runs: what is
/why SYMBOL: why it was bought, sold or left
/waiting: what waits for you, with buttons
/halt: stop all trading now
{_STOP_AT_ONCE}/mute 2h, /mute off: hold messages back
/new: questions to a model begin another conversation
the word halt alone: the same, at once
stop trading, stop run ID, approve ID, research SYMBOL: a card to confirm it
any other text is a question"""
ELSEWHERE = ("resume", "flatten", "arm", "disarm", "settings", "tokens", "start", "buy", "sell", "approve", "deny")
QUESTIONS: Mapping[str, str] = {
    "status": "status", "holdings": "holdings", "orders": "orders", "changes": "what changed", "cost": "cost today",
    "runs": "runs",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Incoming:
    """An update of any messenger. at: when it was written, None where the messenger does not say; press: the data of a
    pressed button, press_id its own id. text: None for what is not a person's plain text."""

    number: int
    user: str | None
    chat: str | None
    private: bool
    at: dt.datetime | None = None
    text: str | None = None
    press: str | None = None
    press_id: str = ""

    def kept(self) -> dict[str, Any]:
        """Return the update as JSON, without its number."""
        given = {name: getattr(self, name) for name in ("user", "chat", "private", "text", "press", "press_id")}
        return {**given, "at": self.at.isoformat() if self.at is not None else None}

    @classmethod
    def of_kept(cls, number: int, given: Mapping[str, Any]) -> Incoming:
        at = given.get("at")
        return cls(number, **{**given, "at": dt.datetime.fromisoformat(at) if at is not None else None})


class NotHeld(Exception):
    """Another process has taken over: what was done in this transaction is undone."""


@dataclass(frozen=True, slots=True)
class Inbox:
    """The side of a messenger that acts. shown: its name for people; holds: whether this process is the one that
    sends, in a transaction."""

    store: Store
    settings: Settings
    messenger: str
    shown: str
    holds: Callable[[Session], bool]
    confirm: str = "real"
    toasts: bool = True  # a press has a small answer of its own
    sign: str = "/"  # with which commands begin there

    @property
    def help(self) -> str:
        """Without a sign a run is ended by a card alone."""
        return HELP.replace("/", self.sign) if self.sign else HELP.replace(_STOP_AT_ONCE, "").replace("/", "")

    def receive(self, one: Incoming) -> bool:
        """Keep an update before it is acted on, for a messenger that gives it once alone; False for one that was kept
        before. `take` acts on it, in this process or in one that follows. Raises NotHeld."""
        row = Update(messenger=self.messenger, number=one.number, at=utcnow(), user=one.user, what=RECEIVED)
        row.given = one.kept()
        with self.store.session() as session:
            if not self.holds(session):
                raise NotHeld
            return bool(session.connection().execute(absent_insert(session, Update), row.model_dump()).rowcount)

    def received(self) -> list[Incoming]:
        """Return what was kept and not acted on, the oldest first."""
        with self.store.read() as session:
            rows = session.exec(
                select(Update)
                .where(Update.messenger == self.messenger, Update.what == RECEIVED)
                .order_by(col(Update.at), col(Update.number))
            ).all()
        return [Incoming.of_kept(row.number, row.given or {}) for row in rows]

    def take(self, one: Incoming, polled_at: dt.datetime | None) -> None:
        """Act on an update unless that was done before. polled_at: up to when all updates had been fetched before.
        Raises NotHeld."""
        with self.store.read() as session:
            if not self.holds(session):
                raise NotHeld
            known = session.get(Update, (self.messenger, one.number))
            if known is not None and known.what != RECEIVED:
                return
            person = _person(session, self.messenger, one)
        halted = self._halt(person) if person is not None and _command(one)[0] == "halt" else None
        acting = _Acting(self, one, polled_at, halted)
        try:
            self._within(one, acting.act)
            if acting.left:
                confirming.finish(self, acting.left)
        except DeskError as error:
            told = f"{error.args[0]}. {error.remedy}" if error.remedy else str(error.args[0])
            self._within(one, lambda session: acting.refuse(session, told))

    def _within(self, one: Incoming, act: Callable[[Session], str]) -> None:
        """Act in one transaction with the record of the update; act returns what the update was."""
        with self.store.session() as session:
            if not self.holds(session):
                raise NotHeld
            row = Update(messenger=self.messenger, number=one.number, at=utcnow(), user=one.user, what="taken")
            is_new = session.connection().execute(absent_insert(session, Update), row.model_dump()).rowcount
            noted = session.get_one(Update, (self.messenger, one.number), with_for_update=True, populate_existing=True)
            if not is_new and noted.what != RECEIVED:
                return
            noted.what, noted.given = act(session), None
            session.add(noted)
        log.info("messengers.taken", update=one.number, what=noted.what)

    def _halt(self, person: MessengersPerson) -> str | None:
        if Scope.HALT not in person.scopes:
            return None
        from chordesk.tools.orders import kill_switch

        told = _Halted()
        request = kill_switch.HaltRequest(f"{person.name} via {self.shown}")
        result = kill_switch.halt(self.settings, request, lambda: self.store, _no_broker, told)
        told.lines.insert(0, "Trading is halted." if result.in_force else "NOTHING IS HALTED.")
        return "\n".join(told.lines)


class _Acting:
    """One update, in its transaction."""

    def __init__(self, inbox: Inbox, one: Incoming, polled_at: dt.datetime | None, halted: str | None) -> None:
        self._inbox, self._one, self._polled_at, self._halted = inbox, one, polled_at, halted
        self._settings, self._messenger = inbox.settings, inbox.messenger
        self.left = ""  # the target of what was confirmed and may not be done yet

    def act(self, session: Session) -> str:
        one = self._one
        if one.user is None or one.chat is None or (one.text is None and one.press is None):
            return "ignored"
        command, given = _command(one)
        if command == "pair":
            return self._pair(session, given)
        person = _person(session, self._messenger, one)
        if person is None:
            return "stranger"
        if person.blocked_at is not None:  # who writes wants answers again
            person.blocked_at = None
            session.add(person)
        if one.press is not None:
            return self._press(session, person, one.press)
        return self._write(session, person, command, given)

    def refuse(self, session: Session, why: str) -> str:
        """Write why an act was refused, where it was a paired person's."""
        person = _person(session, self._messenger, self._one)
        if person is None:
            return "stranger"
        self._say(session, person, why)
        return "refused"

    def _say(self, session: Session, person: MessengersPerson, text: str) -> None:
        """Answer: a press by its small note and a message, a text by a message."""
        if self._one.press is not None and self._inbox.toasts:
            messages.toast(session, person, self._one.press_id, messages.plain(text))
        messages.reply(session, person, messages.plain(text))

    def _note(self, session: Session, person: MessengersPerson, text: str) -> None:
        """Answer a press that changes nothing: by its small note alone, where there is one."""
        if self._inbox.toasts:
            messages.toast(session, person, self._one.press_id, messages.plain(text))
        else:
            messages.reply(session, person, messages.plain(text))

    def _pair(self, session: Session, code: str) -> str:
        one, now = self._one, utcnow()
        user, chat = one.user or "", one.chat or ""
        if not people.may_try(session, self._messenger, user, now):
            return "too_many_codes"
        if one.private and (known := people.of_chat(session, self._messenger, user)) is not None:
            messages.reply(session, known, f"This chat is paired already, as {known.name}.")
            return "paired_before"
        made = people.pair(session, self._settings, self._messenger, code, user, chat, private=one.private)
        if made is None:
            return people.WRONG
        may = ", ".join(made.scopes)
        messages.reply(session, made, f"Paired as {made.name}. You may: {may}.\n{self._inbox.help}")
        return "paired"

    def _write(self, session: Session, person: MessengersPerson, command: str, given: str) -> str:
        if command == "halt":
            self._say(session, person, self._halted or f"You may not halt: {_may(person)}.")
        elif command == "waiting":
            self._waiting(session, person)
        elif command == "stop":
            self._stop(session, person, given)
        elif command == "mute":
            self._mute(session, person, given)
        elif command in ("help", "start"):
            messages.reply(
                session, person, f"You are {person.name}. You may: {', '.join(person.scopes)}.\n{self._inbox.help}"
            )
        elif command == people.ANEW:
            messages.reply(session, person, "A new conversation begins.")
        elif command == "why" and not given:
            messages.reply(session, person, f"Write the symbol, too: {self._inbox.sign}why IBM")
        elif command in ELSEWHERE:
            messages.reply(session, person, f"Not from here: {command} is done from the terminal or the page.")
        elif command and command not in QUESTIONS and command != "why":
            messages.reply(session, person, f"There is no /{quoted(command, 30)}.\n{self._inbox.help}")
        else:
            return self._question(session, person, command, given)
        return command

    def _question(self, session: Session, person: MessengersPerson, command: str, given: str) -> str:
        text = f"why {given}" if command == "why" else QUESTIONS.get(command, given)
        if len(text) > MOST_TEXT:
            messages.reply(session, person, f"That is too long: {len(text):,} characters of at most {MOST_TEXT:,}.")
            return "too_long"
        waiting_now = [row for row in messages.questions(session, self._messenger, 1_000) if row.person_id == person.id]
        if len(waiting_now) >= MOST_QUESTIONS:
            return "too_many_questions"  # those before it are answered
        messages.question(session, person, text)
        return "question"

    def _waiting(self, session: Session, person: MessengersPerson) -> None:
        rows = waiting(session)
        if not rows:
            messages.reply(session, person, "Nothing waits for a person.")
        for row in rows:
            if Scope.DECIDE in person.scopes:
                cards.add(session, self._settings, person, row, utcnow())
            else:
                messages.reply(session, person, cards.text_of(session, self._settings, row))

    def _stop(self, session: Session, person: MessengersPerson, given: str) -> None:
        if Scope.STOP not in person.scopes:
            self._say(session, person, f"You may not stop runs: {_may(person)}.")
            return
        from chordesk.tasks.engine.steps import open_runs_below
        from chordesk.tasks.worker.control import mark

        shown = "runs shows what runs; halt stops all trading"
        run = by_prefix(session, Run, given.strip() or "-", least=ACTS, lists=shown)
        for inner in open_runs_below(session, [run.id]):
            mark(session, inner)
        found = mark(session, run.id)
        told = f"was over: it is {found.state}" if found.over else "is stopping"
        self._say(session, person, f"run {run.id[:8]} {told}")

    def _mute(self, session: Session, person: MessengersPerson, given: str) -> None:
        from chordesk.tasks.messengers.commands import until_of

        until = until_of(given.strip() or "1h")
        people.mute_person(session, person, until)
        at = f"{until.astimezone(messages.zone_of(self._settings)):%b %-d, %H:%M %Z}" if until is not None else ""
        self._say(session, person, f"Muted until {at}; halts pass." if until is not None else "Not muted.")

    def _press(self, session: Session, person: MessengersPerson, data: str) -> str:
        button = session.get(MessengersButton, people.digest(data), with_for_update=True, populate_existing=True)
        if button is None:
            self._note(session, person, "That button is not known any more.")
            return "unknown_button"
        if button.person_id != person.id:
            return "button_of_another"
        if confirming.is_proposal(button.target):
            return self._answer(session, person, button)
        if Scope.DECIDE not in person.scopes:
            self._say(session, person, f"You may not decide: {_may(person)}.")
            return "refused"
        row = asked_of(session, button.target)
        fate = cards.fate_of(row, utcnow(), messages.zone_of(self._settings))
        if fate is not None or button.used_at is not None:
            self._note(session, person, fate or "That was pressed already.")
            return "late_press"
        if (why := self._stale()) is not None:
            self._say(session, person, why)
            return "stale_press"
        button.used_at = utcnow()
        session.add(button)
        if button.act == cards.APPROVE and self._confirms(row):
            return self._ask_again(session, person, button, row)
        return self._decide(session, person, button, row)

    def _answer(self, session: Session, person: MessengersPerson, button: MessengersButton) -> str:
        """Answer a proposal: what is no row of the database is done once this transaction has its record."""
        fate = confirming.fate_of(session, self._settings, button.target)
        if fate is not None or button.used_at is not None:
            self._note(session, person, fate or "That was pressed already.")
            return "late_press"
        if (why := self._stale()) is not None:
            self._say(session, person, why)
            return "stale_press"
        button.used_at = utcnow()
        session.add(button)
        told = confirming.answer(session, self._inbox, person, button)
        self._say(session, person, told)
        if button.act == confirming.YES:
            self.left = button.target
        return f"{button.act}_to_proposal"

    def _confirms(self, row: cards.Asked) -> bool:
        wanted = self._inbox.confirm
        if not isinstance(row, WaitingOrder):
            return False
        return wanted == "always" or (wanted == "real" and self._settings.real_money)

    def _ask_again(self, session: Session, person: MessengersPerson, button: MessengersButton, row: cards.Asked) -> str:
        card = session.get_one(MessengersMessage, button.message_id)
        text = cards.text_of(session, self._settings, row)
        if button.shown != cards.shown_hash(row):
            text = f"{text}\nATTENTION: this is not what you saw before."
        messages.edit(session, person, card, text, cards.confirm_buttons(self._settings, row))
        card.text = text
        session.add(card)
        self._note(session, person, "Press once more to approve.")
        return "asked_again"

    def _decide(self, session: Session, person: MessengersPerson, button: MessengersButton, row: cards.Asked) -> str:
        approve, by = button.act != cards.DENY, f"{person.name} via {self._inbox.shown}"
        order = isinstance(row, WaitingOrder)
        if not order and button.shown != cards.shown_hash(row):
            raise UsageError("the request is not the one that was shown", remedy="look at it again by /waiting")
        found = answer_in(
            session, self._settings, button.target, approve=approve, by=by,
            why=None if approve else "denied from a phone", expect=button.shown if order else None,
        )  # fmt: skip
        if found.state is ApprovalState.EXPIRED:
            self._say(session, person, found.too_late)
            return "too_late"
        then = "; it is sent within a minute" if approve and order else ""
        self._say(session, person, f"{found.state} by {by}{then}")
        return f"{found.state}"

    def _stale(self) -> str | None:
        """Return why an act may be older than FRESH; None where it is not.

        A message has its time by the messenger's clock, and a press where the messenger says it. Else it came after all
        that was fetched before, so it is at most as old as that: a desk that was away does not know when it was.
        """
        now, one = utcnow(), self._one
        if one.at is not None:
            age = now - one.at
            if age < -CLOCKS_DIFFER:
                return "This machine's clock is behind the messenger's: nothing was decided. Set it right."
        else:
            age = now - self._polled_at if self._polled_at is not None else FRESH * 2
        if age <= FRESH:
            return None
        return "That may have been pressed while the desk was away: nothing was decided. Press again."


def _person(session: Session, messenger: str, one: Incoming) -> MessengersPerson | None:
    """Return the paired person whose own private chat an update comes from."""
    if not one.private or one.user is None or one.chat is None:
        return None
    return people.of_chat(session, messenger, one.user, one.chat)


# Commands that may be written without their sign, which some services keep for themselves: alone, or with one word.
# Of those that act, a halt alone: it is the safe side, and nothing else can be meant. What else acts gets a card.
_ALONE = frozenset({"halt", "waiting", "help", people.ANEW, *QUESTIONS})
_WITH_ONE = frozenset({"pair", "mute"})
_ALL_TRADING = frozenset({"trading", "all trading", "everything"})  # what is stopped by a halt, and is no run


def is_halt(one: Incoming) -> bool:
    """Return whether a text is a halt, which goes before all others."""
    return _command(one)[0] == "halt"


def _command(one: Incoming) -> tuple[str, str]:
    """Return the command in small letters and what follows; an empty command and the text for any other."""
    text = (one.text or "").strip()
    if not text.startswith("/"):
        words = text.split()
        name = words[0].lower() if words else ""
        if (name in _ALONE and len(words) == 1) or (name in _WITH_ONE and len(words) == 2):
            return name, words[1] if len(words) == 2 else ""
        return "", text
    word, _, rest = text[1:].partition(" ")
    name = word.partition("@")[0].lower()
    if name == "stop" and " ".join(rest.lower().split()).rstrip("!. ") in _ALL_TRADING:
        return "halt", ""
    return (name, rest.strip()) if name.isalnum() and len(name) <= 32 else ("", text)


def _may(person: MessengersPerson) -> str:
    return f"you may {', '.join(person.scopes)}"


def _no_broker(store: Store) -> NoReturn:
    raise NotConfigured("this process has no key of a broker")


class _Halted:
    """Listener that words each step of a halt."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def file_written(self, path: Path) -> None:
        """The first line says that it is in force."""

    def account_halted(self, account: str, denied: Sequence[str]) -> None:
        self.lines.append(f"account {quoted(account, 40)} halted; waiting orders denied: {len(denied)}")

    def orders_left_to_worker(self) -> None:
        self.lines.append("the trade worker cancels open orders; protective stops stay")

    def orders_cancelled(self, left: Sequence[str], protective: Sequence[str]) -> None:
        self.lines.append(f"{len(left)} open orders are not confirmed as cancelled" if left else "no open orders")

    def positions_closed(self, orders: Sequence[Order], filled: Mapping[str, Decimal]) -> None:
        """A halt from here closes nothing."""

    def others_left(self, positions: Sequence[BrokerPosition]) -> None:
        """A halt from here closes nothing."""

    def failed(self, error: DeskError) -> None:
        if not isinstance(error, NotConfigured):  # the trade worker has the broker's keys, as the next line says
            self.lines.append(quoted(error.args[0], 200))


def note_polled(session: Session, messenger: str, next_update: int | None, at: dt.datetime | None) -> None:
    """Note which update is next, and up to when all were fetched (None: as before)."""
    bot = session.get(MessengersBot, messenger) or MessengersBot(messenger=messenger)
    bot.next_update = next_update if next_update is not None else bot.next_update
    bot.polled_at = at or bot.polled_at
    bot.error = bot.error_at = None
    session.add(bot)
