"""The desk's Telegram bot: one task polls for what people write, another sends what is to be written."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import structlog
from sqlmodel import Session

from chordesk.models.database.store import AWAY, Store
from chordesk.models.messengers.settings import MessengersSettings
from chordesk.models.messengers.tables import MessengersBot, MessengersMessage, MessengersPerson
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import own_settings
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.messengers import answering, cards, messages, people
from chordesk.tasks.messengers.inbound import FRESH, Inbox, Incoming, NotHeld, note_polled
from chordesk.tasks.messengers.messages import CARD, EDIT, TOAST, PersonQuiet
from chordesk.tasks.messengers.people import Scope
from chordesk.tasks.messengers.telegram_api import CALL_SECONDS, BotApi, Refusal
from chordesk.tasks.messengers.telegram_updates import incoming
from chordesk.tasks.notifications.channels import Answer, Channel
from chordesk.tasks.notifications.messengers import Wire

log = structlog.get_logger(__name__)
NAME, SHOWN = "telegram", "Telegram"
POLL_SECONDS = 25  # for which Telegram holds a poll without updates
MOST_UPDATES = 100  # of one poll
LOOK_SECONDS = 0.5  # between two looks at what is to be sent
HOLD_SECONDS = 3.0  # between two looks at who polls
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
FOREIGN_SECONDS = 30.0  # after somebody else polls with the token
# Telegram numbers updates anew after a week without one, so that an older number says nothing of what is next.
NUMBERS_LAST = dt.timedelta(days=6)
REVOKED = (401, 404)  # statuses of a token that is not in force
BLOCKED = 403
FOREIGN = "another program polls with the bot's token"
NO_LINKS = {"is_disabled": True}
Found = TypeVar("Found")


class _Everything(frozenset[NoticeKind]):
    """All kinds of notices but those of what waits for a person, which are cards."""

    def __contains__(self, kind: object) -> bool:
        return kind not in (NoticeKind.ORDER_WAITING, NoticeKind.REQUEST_WAITING)


CARDED = _Everything(set(NoticeKind) - {NoticeKind.ORDER_WAITING, NoticeKind.REQUEST_WAITING})


class Telegram:
    """The bot of these settings."""

    def __init__(self, settings: Settings, store: Store) -> None:
        own = own_settings(settings, MessengersSettings)
        assert own.telegram_token is not None
        self._settings, self._store, self._confirm = settings, store, own.confirm
        self._base, self._token = own.telegram_api, own.telegram_token.get_secret_value()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._api: BotApi | None = None
        self._wake = asyncio.Event()
        self._ended = threading.Event()

    def wires(self) -> Sequence[Wire]:
        if self._ended.is_set():
            return []
        with self._store.read() as session:
            found = people.in_force(session, NAME)
        return [_PersonWire(self, person) for person in found if person.blocked_at is None]

    def run(self, stop: threading.Event, holds: Callable[[Session], bool]) -> None:
        """Poll and send while this process is the one that sends, until `stop` is set or the token is revoked."""
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
            return Answer(False, "the Telegram bot is not connected")
        asked = asyncio.run_coroutine_threadsafe(self._sent_now(api, person, text), loop)
        try:
            return asked.result(CALL_SECONDS)
        except TimeoutError:
            asked.cancel()
            return Answer(False, "no answer in time")

    async def _sent_now(self, api: BotApi, person: MessengersPerson, text: str) -> Answer:
        try:
            for part in messages.parts(text):
                await api.to_chat("sendMessage", person.chat, text=part, link_preview_options=NO_LINKS)
        except Refusal as error:
            if error.status == BLOCKED:
                await asyncio.to_thread(self._blocked, person.id)
            return Answer(False, str(error))
        return Answer(True)

    async def _run(self, stop: threading.Event, holds: Callable[[Session], bool]) -> None:
        inbox = Inbox(self._store, self._settings, NAME, SHOWN, holds, self._confirm)
        self._wake = asyncio.Event()
        async with BotApi(self._base, self._token) as api:
            self._loop, self._api = asyncio.get_running_loop(), api
            tasks = [
                asyncio.create_task(self._polls(api, inbox)),
                asyncio.create_task(self._sends(api, inbox)),
                asyncio.create_task(self._answers(inbox)),
            ]
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
                if isinstance(error, _Revoked):
                    log.error("messengers.token_revoked", messenger=NAME, error=str(error))
                elif isinstance(error, Exception):
                    raise error

    async def _polls(self, api: BotApi, inbox: Inbox) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                if not await asyncio.to_thread(self._held, inbox):
                    await asyncio.sleep(1.0)
                    continue
                await self._poll(api, inbox)
                pause = FIRST_PAUSE
            except NotHeld:
                await asyncio.sleep(1.0)
            except Refusal as error:
                if error.status in REVOKED:
                    await self._trouble(inbox, f"Telegram does not know the token: {error}")
                    raise _Revoked(str(error)) from None
                foreign = error.status == 409
                await self._trouble(inbox, FOREIGN if foreign else str(error))
                wait = error.wait or (FOREIGN_SECONDS if foreign else pause)
                log.warning("messengers.not_polled", messenger=NAME, error=str(error), seconds=round(wait, 1))
                await asyncio.sleep(wait * random.uniform(1.0, 1.2))
                pause = min(pause * 2, LONGEST_PAUSE)
            except AWAY as error:
                log.warning("messengers.database_away", error=str(error).splitlines()[0])
                await asyncio.sleep(3.0)

    async def _poll(self, api: BotApi, inbox: Inbox) -> None:
        bot = await asyncio.to_thread(self._bot)
        if bot is None or bot.name is None:
            await self._introduce(api, inbox)
        began = utcnow()
        polled_at = bot.polled_at if bot is not None else None
        recent = polled_at is not None and began - polled_at < NUMBERS_LAST
        # First what came while nobody polled: after that a press is known to be of now.
        fresh = polled_at is not None and began - polled_at < FRESH
        seconds = POLL_SECONDS if fresh else 0
        given = {"offset": bot.next_update} if bot is not None and bot.next_update is not None and recent else {}
        poll = asyncio.create_task(
            api.call(
                "getUpdates", seconds + 10.0, timeout=seconds, limit=MOST_UPDATES,
                allowed_updates=["message", "callback_query"], **given,
            )
        )  # fmt: skip
        try:
            while not poll.done():
                await asyncio.wait([poll], timeout=HOLD_SECONDS)
                if not poll.done() and not await asyncio.to_thread(self._held, inbox):
                    raise NotHeld
            found = list(incoming(await poll))
        finally:
            poll.cancel()
            with contextlib.suppress(BaseException):
                await poll
        await asyncio.to_thread(self._take, inbox, found, polled_at)
        self._wake.set()

    def _take(self, inbox: Inbox, found: Sequence[Incoming], polled_at: dt.datetime | None) -> None:
        """Act on updates, halts first; then note that they were fetched, so that they are not given again."""
        at = utcnow()
        for one in sorted(found, key=lambda one: not (one.text or "").strip().lower().startswith("/halt")):
            inbox.take(one, polled_at)
        whole = len(found) < MOST_UPDATES
        with self._store.session() as session:
            if not inbox.holds(session):
                raise NotHeld
            following = max(one.number for one in found) + 1 if found else None
            note_polled(session, NAME, following, at if whole else None)

    async def _sends(self, api: BotApi, inbox: Inbox) -> None:
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
            wanted = cards.lacking(session, NAME) or cards.ended(session, self._settings, NAME, now)
        if not fresh and not wanted:
            return True
        with self._store.session() as session:
            if not inbox.holds(session):
                return False
            if fresh:
                messages.free_left(session, NAME)
            cards.write(session, self._settings, NAME, now)
            cards.close(session, self._settings, NAME, now)
        return True

    def _next(self, inbox: Inbox) -> tuple[MessengersMessage, MessengersPerson, str | None] | None:
        """Mark the next message as being sent and return it, with its person and the message that it edits."""
        with self._store.read() as session:
            if not messages.due(session, NAME, utcnow(), 1):
                return None
        with self._store.session() as session:
            if not inbox.holds(session):
                raise NotHeld
            for row in messages.due(session, NAME, utcnow()):
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
        self, api: BotApi, inbox: Inbox, row: MessengersMessage, person: MessengersPerson, edited: str | None
    ) -> None:
        try:
            remote = await _delivered(api, row, person, edited)
        except Refusal as error:
            await asyncio.to_thread(self._not_delivered, row, person, error)
            if error.status in REVOKED:
                await self._trouble(inbox, f"Telegram does not know the token: {error}")
                raise _Revoked(str(error)) from None
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
        if error.status == BLOCKED:
            self._blocked(person.id)

    def _blocked(self, person_id: str) -> None:
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
                if not await asyncio.to_thread(answering.answer_next, inbox):
                    await asyncio.sleep(LOOK_SECONDS)
                else:
                    self._wake.set()
            except NotHeld:
                await asyncio.sleep(1.0)
            except AWAY as error:
                log.warning("messengers.database_away", error=str(error).splitlines()[0])
                await asyncio.sleep(3.0)

    async def _introduce(self, api: BotApi, inbox: Inbox) -> None:
        found = await api.call("getMe")
        name = found.get("username") if isinstance(found, dict) else None
        if isinstance(name, str):
            await asyncio.to_thread(self._note_bot, inbox, name=name)

    async def _trouble(self, inbox: Inbox, why: str) -> None:
        with contextlib.suppress(*AWAY, NotHeld):
            await asyncio.to_thread(self._note_bot, inbox, error=why)

    def _note_bot(self, inbox: Inbox, **values: Any) -> None:
        with self._store.session() as session:
            if not inbox.holds(session):
                raise NotHeld
            bot = session.get(MessengersBot, NAME) or MessengersBot(messenger=NAME)
            for name, value in values.items():
                setattr(bot, name, value)
            bot.error_at = utcnow() if values.get("error") else bot.error_at
            session.add(bot)

    def _bot(self) -> MessengersBot | None:
        with self._store.read() as session:
            return session.get(MessengersBot, NAME)

    def _held(self, inbox: Inbox) -> bool:
        with self._store.read() as session:
            return inbox.holds(session)


class _Revoked(Exception):
    """The token is not in force any more."""


async def _delivered(api: BotApi, row: MessengersMessage, person: MessengersPerson, edited: str | None) -> str | None:
    """Send a message; return Telegram's id of it. Raises Refusal."""
    if row.kind == TOAST:
        await api.call("answerCallbackQuery", callback_query_id=row.remote, text=row.text)
        return None
    keys = [{"text": label, "callback_data": data} for label, data in row.buttons]
    given: dict[str, Any] = {"text": row.text, "link_preview_options": NO_LINKS}
    given |= {"reply_markup": {"inline_keyboard": [keys]}} if keys else {}
    if row.kind != EDIT:
        found = await api.to_chat("sendMessage", person.chat, **given)
        number = found.get("message_id") if isinstance(found, dict) else None
        return str(number) if isinstance(number, int) else None
    try:
        await api.to_chat("editMessageText", person.chat, message_id=int(edited or 0), **given)
    except Refusal as error:
        if "message is not modified" not in str(error):
            raise
    return None


class _PersonWire:
    """A person as a channel of notifications."""

    service = SHOWN

    def __init__(self, bot: Telegram, person: MessengersPerson) -> None:
        self._bot, self._person = bot, person
        kinds = CARDED if Scope.DECIDE in person.scopes else _every()
        quiet: Any = PersonQuiet.of(bot._settings, person)
        self.channel = Channel(f"{NAME}:{person.name}", "", kinds, quiet)

    def send(self, title: str, text: str) -> Answer:
        return self._bot.send_now(self._person, f"{title}\n{text}")


def _every() -> frozenset[NoticeKind]:
    from chordesk.models.notice_channels import EVERY

    return EVERY


def build(settings: Settings, store: Store) -> Telegram:
    return Telegram(settings, store)
