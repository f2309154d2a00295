"""A bot of the desk at a messenger: one task takes what people write, another sends what is to be written, a third
answers questions. What differs between the services is a `Bot` of each."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import structlog
from sqlmodel import Session

from chordesk.models.database.store import AWAY, Store
from chordesk.models.messengers.settings import MessengersSettings
from chordesk.models.messengers.tables import MessengersBot, MessengersMessage, MessengersPerson
from chordesk.models.notice_channels import EVERY, NoticeKind
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import MESSENGERS, own_settings
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.messengers import answering, cards, confirming, messages, morning, people
from chordesk.tasks.messengers.far_side import CALL_SECONDS, FarSide, Refusal
from chordesk.tasks.messengers.inbound import Inbox, NotHeld
from chordesk.tasks.messengers.messages import CARD, EDIT, PersonQuiet
from chordesk.tasks.messengers.people import Scope
from chordesk.tasks.notifications.channels import Answer, Channel
from chordesk.tasks.notifications.messengers import Wire

log = structlog.get_logger(__name__)
LOOK_SECONDS = 0.5  # between two looks at what is to be sent
HOLD_SECONDS = 3.0  # between two looks at who has the lease
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
Api = TypeVar("Api", bound=FarSide)


class _Everything(frozenset[NoticeKind]):
    """All kinds of notices but those of what waits for a person, which are cards."""

    def __contains__(self, kind: object) -> bool:
        return kind not in (NoticeKind.ORDER_WAITING, NoticeKind.REQUEST_WAITING)


CARDED = _Everything(set(NoticeKind) - {NoticeKind.ORDER_WAITING, NoticeKind.REQUEST_WAITING})


class Revoked(Exception):
    """The token is not in force any more."""


class Bot(Generic[Api]):
    """name, shown: of the messenger; revoked, blocked: statuses of a token that is not in force, and of a person who
    wants no messages; toasts: a press has a small answer of its own."""

    name: ClassVar[str]
    shown: ClassVar[str]
    revoked: ClassVar[tuple[int, ...]] = (401,)
    blocked: ClassVar[int] = 403
    toasts: ClassVar[bool] = False

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings, self._store = settings, store
        self._own = own_settings(settings, MessengersSettings)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._api: Api | None = None
        self._wake = asyncio.Event()
        self._ended = threading.Event()

    def api(self) -> Api:
        """Return the service's side, not connected yet."""
        raise NotImplementedError

    def receiving(self, api: Api, inbox: Inbox) -> list[Coroutine[Any, Any, None]]:
        """Return what takes what people write, without an end. It raises Revoked for a token that is not in force."""
        raise NotImplementedError

    async def deliver(
        self, api: Api, row: MessengersMessage, person: MessengersPerson, edited: str | None
    ) -> str | None:
        """Send a message; return the service's id of it. edited: that of the message it changes. Raises Refusal."""
        raise NotImplementedError

    async def say(self, api: Api, person: MessengersPerson, text: str) -> None:
        """Send a text of one message. Raises Refusal."""
        raise NotImplementedError

    def wires(self) -> Sequence[Wire]:
        if self._ended.is_set():
            return []
        with self._store.read() as session:
            found = people.in_force(session, self.name)
        return [PersonWire(self, person) for person in found if person.blocked_at is None]

    def run(self, stop: threading.Event, holds: Callable[[Session], bool]) -> None:
        """Work while this process is the one that sends, until `stop` is set or the token is revoked."""
        self._ended.clear()
        try:
            asyncio.run(self._run(stop, holds))
        finally:
            self._ended.set()
            self._loop = self._api = None

    def send_now(self, person: MessengersPerson, text: str) -> Answer:
        """Send a message from another thread, and return what became of it."""
        loop, api = self._loop, self._api
        if loop is None or api is None:
            return Answer(False, f"the {self.shown} bot is not connected")
        asked = asyncio.run_coroutine_threadsafe(self._sent_now(api, person, text), loop)
        try:
            return asked.result(CALL_SECONDS)
        except TimeoutError:
            asked.cancel()
            return Answer(False, "no answer in time")

    async def _sent_now(self, api: Api, person: MessengersPerson, text: str) -> Answer:
        try:
            for part in messages.parts(text):
                await self.say(api, person, part)
        except Refusal as error:
            if error.status == self.blocked:
                await asyncio.to_thread(self._block, person.id)
            return Answer(False, str(error))
        return Answer(True)

    async def _run(self, stop: threading.Event, holds: Callable[[Session], bool]) -> None:
        sign = MESSENGERS[self.name].sign
        inbox = Inbox(self._store, self._settings, self.name, self.shown, holds, self._own.confirm, self.toasts, sign)
        self._wake = asyncio.Event()
        async with self.api() as api:
            self._loop, self._api = asyncio.get_running_loop(), api  # type: ignore[assignment]
            work = [*self.receiving(self._api, inbox), self._sends(self._api, inbox), self._answers(inbox)]  # type: ignore[arg-type]
            tasks = [asyncio.create_task(each) for each in work]
            try:
                while not stop.is_set() and not any(task.done() for task in tasks):
                    await asyncio.wait(tasks, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
            finally:
                left = set(tasks)
                while left:  # `wait_for` of Python 3.11 may lose a cancellation
                    for task in left:
                        task.cancel()
                    left = (await asyncio.wait(left, timeout=0.2))[1]
                ended = await asyncio.gather(*tasks, return_exceptions=True)
            for error in ended:
                if isinstance(error, Revoked):
                    log.error("messengers.token_revoked", messenger=self.name, error=str(error))
                elif isinstance(error, Exception):
                    raise error

    async def _sends(self, api: Api, inbox: Inbox) -> None:
        held = False
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), LOOK_SECONDS)
            self._wake.clear()
            try:
                now_held = await asyncio.to_thread(self._prepare, inbox, not held)
                while now_held and (row := await asyncio.to_thread(self._next, inbox)) is not None:
                    await self._deliver(api, inbox, *row)
                held = now_held
            except NotHeld:
                held = False
            except AWAY as error:
                log.warning("messengers.database_away", error=str(error).splitlines()[0])
                await asyncio.sleep(3.0)

    def _prepare(self, inbox: Inbox, fresh: bool) -> bool:
        """Add cards and what became of them. fresh: this process has just become the one that sends."""
        now = utcnow()
        with self._store.read() as session:
            if not inbox.holds(session):
                return False
            wanted = (
                bool(cards.lacking(session, self.name))
                or bool(cards.ended(session, self._settings, self.name, now))
                or bool(morning.due(session, self._settings, self.name, now))
            )
        if not fresh and not wanted:
            return True
        if fresh:
            confirming.finish_left(inbox)
        with self._store.session() as session:
            if not inbox.holds(session):
                return False
            if fresh:
                messages.free_left(session, self.name)
            cards.write(session, self._settings, self.name, now)
            cards.close(session, self._settings, self.name, now)
            morning.write(session, self._settings, self.name, now)
        return True

    def _next(self, inbox: Inbox) -> tuple[MessengersMessage, MessengersPerson, str | None] | None:
        """Mark the next message as being sent and return it, with its person and the message that it edits."""
        with self._store.read() as session:
            if not messages.due(session, self.name, utcnow(), 1):
                return None
        with self._store.session() as session:
            if not inbox.holds(session):
                raise NotHeld
            for row in messages.due(session, self.name, utcnow()):
                person = session.get_one(MessengersPerson, row.person_id)
                if person.blocked_at is not None or person.revoked_at is not None:
                    people.drop_waiting(session, person, "the person does not want messages", utcnow())
                    continue
                if row.kind == CARD and cards.is_over(session, self._settings, row):
                    continue  # the next look says so in place of it
                edited = session.get(MessengersMessage, row.card) if row.card is not None else None
                if row.kind == EDIT and (edited is None or edited.remote is None):
                    messages.failed(session, row.id, "its card was never sent", again=False, known=True)
                elif messages.begin(session, row.id):
                    return row, person, edited.remote if edited is not None else None
        return None

    async def _deliver(
        self, api: Api, inbox: Inbox, row: MessengersMessage, person: MessengersPerson, edited: str | None
    ) -> None:
        try:
            remote = await self.deliver(api, row, person, edited)
        except Refusal as error:
            await asyncio.to_thread(self._not_delivered, row, person, error)
            if error.status in self.revoked:
                await self.trouble(inbox, f"{self.shown} does not know the token: {error}")
                raise Revoked(str(error)) from None
            if error.wait is not None:
                await asyncio.sleep(error.wait)
            return
        await asyncio.to_thread(self._note_sent, row.id, remote)

    def _note_sent(self, id_: str, remote: str | None) -> None:
        with self._store.session() as session:
            messages.sent(session, id_, remote)

    def _not_delivered(self, row: MessengersMessage, person: MessengersPerson, error: Refusal) -> None:
        again = error.status == 0 or error.status >= 500 or error.status in (200, 409, 429)
        log.warning("messengers.not_sent", id=row.id, kind=row.kind, status=error.status, error=str(error))
        with self._store.session() as session:
            messages.failed(session, row.id, str(error), again=again, known=error.known, after=error.wait)
        if error.status == self.blocked:
            self._block(person.id)

    def _block(self, person_id: str) -> None:
        with self._store.session() as session:
            person = session.get_one(MessengersPerson, person_id)
            person.blocked_at = utcnow()
            session.add(person)
            people.drop_waiting(session, person, "the person has blocked the bot", utcnow())
        log.warning("messengers.blocked", person=person.name)

    async def _answers(self, inbox: Inbox) -> None:
        """Answer questions, one at a time: what they ask for may take seconds."""
        while True:
            try:
                told = await asyncio.to_thread(answering.tell_next, inbox)
                if await asyncio.to_thread(answering.answer_next, inbox) or told:
                    self._wake.set()
                else:
                    await asyncio.sleep(LOOK_SECONDS)
            except NotHeld:
                await asyncio.sleep(1.0)
            except AWAY as error:
                log.warning("messengers.database_away", error=str(error).splitlines()[0])
                await asyncio.sleep(3.0)

    async def trouble(self, inbox: Inbox, why: str) -> None:
        with contextlib.suppress(*AWAY, NotHeld):
            await asyncio.to_thread(self.note_bot, inbox, error=why)

    def note_bot(self, inbox: Inbox, **values: Any) -> None:
        with self._store.session() as session:
            if not inbox.holds(session):
                raise NotHeld
            bot = session.get(MessengersBot, self.name) or MessengersBot(messenger=self.name)
            for name, value in values.items():
                setattr(bot, name, value)
            bot.error_at = utcnow() if values.get("error") else bot.error_at
            session.add(bot)

    def bot(self) -> MessengersBot | None:
        with self._store.read() as session:
            return session.get(MessengersBot, self.name)

    def held(self, inbox: Inbox) -> bool:
        with self._store.read() as session:
            return inbox.holds(session)


class PersonWire:
    """A person as a channel of notifications."""

    def __init__(self, bot: Bot[Any], person: MessengersPerson) -> None:
        self._bot, self._person, self.service = bot, person, bot.shown
        kinds = CARDED if Scope.DECIDE in person.scopes else EVERY
        quiet: Any = PersonQuiet.of(bot._settings, person)
        self.channel = Channel(f"{bot.name}:{person.name}", "", kinds, quiet)

    def send(self, title: str, text: str) -> Answer:
        return self._bot.send_now(self._person, f"{title}\n{text}")
