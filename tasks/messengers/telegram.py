"""The desk's Telegram bot: it polls for what people write."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import random
from collections.abc import Coroutine, Sequence
from typing import Any

import structlog

from chordesk.models.database.store import AWAY, Store
from chordesk.models.messengers.tables import MessengersMessage, MessengersPerson
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.messengers import bot
from chordesk.tasks.messengers.bot import Bot, Revoked
from chordesk.tasks.messengers.far_side import Refusal
from chordesk.tasks.messengers.inbound import FRESH, Inbox, Incoming, NotHeld, is_halt, note_polled
from chordesk.tasks.messengers.messages import EDIT, TOAST
from chordesk.tasks.messengers.telegram_api import BotApi
from chordesk.tasks.messengers.telegram_updates import incoming

log = structlog.get_logger(__name__)
POLL_SECONDS = 25  # for which Telegram holds a poll without updates
MOST_UPDATES = 100  # of one poll
FOREIGN_SECONDS = 30.0  # after somebody else polls with the token
# Telegram numbers updates anew after a week without one, so that an older number says nothing of what is next.
NUMBERS_LAST = dt.timedelta(days=6)
FOREIGN = "another program polls with the bot's token"
NO_LINKS = {"is_disabled": True}


class Telegram(Bot[BotApi]):
    """The bot of these settings."""

    name, shown = "telegram", "Telegram"
    revoked = (401, 404)
    toasts = True

    def api(self) -> BotApi:
        assert self._own.telegram_token is not None
        return BotApi(self._own.telegram_api, self._own.telegram_token.get_secret_value())

    def receiving(self, api: BotApi, inbox: Inbox) -> list[Coroutine[Any, Any, None]]:
        return [self._polls(api, inbox)]

    async def say(self, api: BotApi, person: MessengersPerson, text: str) -> None:
        await api.to_chat("sendMessage", person.chat, text=text, link_preview_options=NO_LINKS)

    async def deliver(
        self, api: BotApi, row: MessengersMessage, person: MessengersPerson, edited: str | None
    ) -> str | None:
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

    async def _polls(self, api: BotApi, inbox: Inbox) -> None:
        pause = bot.FIRST_PAUSE
        while True:
            try:
                if not await asyncio.to_thread(self.held, inbox):
                    await asyncio.sleep(1.0)
                    continue
                await self._poll(api, inbox)
                pause = bot.FIRST_PAUSE
            except NotHeld:
                await asyncio.sleep(1.0)
            except Refusal as error:
                if error.status in self.revoked:
                    await self.trouble(inbox, f"Telegram does not know the token: {error}")
                    raise Revoked(str(error)) from None
                foreign = error.status == 409
                await self.trouble(inbox, FOREIGN if foreign else str(error))
                wait = error.wait or (FOREIGN_SECONDS if foreign else pause)
                log.warning("messengers.not_polled", messenger=self.name, error=str(error), seconds=round(wait, 1))
                await asyncio.sleep(wait * random.uniform(1.0, 1.2))
                pause = min(pause * 2, bot.LONGEST_PAUSE)
            except AWAY as error:
                log.warning("messengers.database_away", error=str(error).splitlines()[0])
                await asyncio.sleep(3.0)

    async def _poll(self, api: BotApi, inbox: Inbox) -> None:
        known = await asyncio.to_thread(self.bot)
        if known is None or known.name is None:
            await self._introduce(api, inbox)
        began = utcnow()
        polled_at = known.polled_at if known is not None else None
        recent = polled_at is not None and began - polled_at < NUMBERS_LAST
        # First what came while nobody polled: after that a press is known to be of now.
        fresh = polled_at is not None and began - polled_at < FRESH
        seconds = POLL_SECONDS if fresh else 0
        given = {"offset": known.next_update} if known is not None and known.next_update is not None and recent else {}
        poll = asyncio.create_task(
            api.call(
                "getUpdates", seconds + 10.0, timeout=seconds, limit=MOST_UPDATES,
                allowed_updates=["message", "callback_query"], **given,
            )
        )  # fmt: skip
        try:
            while not poll.done():
                await asyncio.wait([poll], timeout=bot.HOLD_SECONDS)
                if not poll.done() and not await asyncio.to_thread(self.held, inbox):
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
        for one in sorted(found, key=lambda one: not is_halt(one)):
            inbox.take(one, polled_at)
        whole = len(found) < MOST_UPDATES
        with self._store.session() as session:
            if not inbox.holds(session):
                raise NotHeld
            following = max(one.number for one in found) + 1 if found else None
            note_polled(session, self.name, following, at if whole else None)

    async def _introduce(self, api: BotApi, inbox: Inbox) -> None:
        found = await api.call("getMe")
        name = found.get("username") if isinstance(found, dict) else None
        if isinstance(name, str):
            await asyncio.to_thread(self.note_bot, inbox, name=name)


def build(settings: Settings, store: Store) -> Telegram:
    return Telegram(settings, store)
