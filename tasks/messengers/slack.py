"""The desk's Slack bot: a socket through which Slack sends what people write in direct messages to it.

Slack gives a press of a button once, and wants an answer within three seconds. So what came is kept in the database,
answered to Slack, and then acted on; a process that ends before it acted leaves that to the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Coroutine
from typing import Any

import aiohttp
import structlog

from chordesk.models.database.store import AWAY, Store
from chordesk.models.errors import SettingError
from chordesk.models.messengers.settings import MessengersSettings
from chordesk.models.messengers.tables import MessengersMessage, MessengersPerson
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import own_settings
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.messengers import bot, inbound
from chordesk.tasks.messengers.bot import Bot, Revoked
from chordesk.tasks.messengers.far_side import Refusal, object_of
from chordesk.tasks.messengers.inbound import Inbox, Incoming, NotHeld, note_polled
from chordesk.tasks.messengers.messages import EDIT
from chordesk.tasks.messengers.slack_api import SlackApi
from chordesk.tasks.messengers.slack_updates import incoming

log = structlog.get_logger(__name__)
MOST_SECTION = 2_900  # characters of a section; Slack allows 3,000
MOST_LABEL = 75
Waiting = asyncio.PriorityQueue[tuple[int, int, Incoming]]


class Slack(Bot[SlackApi]):
    """The bot of these settings."""

    name, shown = "slack", "Slack"

    def api(self) -> SlackApi:
        own = self._own
        assert own.slack_bot_token is not None
        assert own.slack_app_token is not None
        return SlackApi(own.slack_api, own.slack_bot_token.get_secret_value(), own.slack_app_token.get_secret_value())

    def receiving(self, api: SlackApi, inbox: Inbox) -> list[Coroutine[Any, Any, None]]:
        self._order, self._waiting = 0, Waiting()
        return [self._listens(api, inbox), self._acts(inbox)]

    async def say(self, api: SlackApi, person: MessengersPerson, text: str) -> None:
        await api.to_channel("chat.postMessage", person.chat, **content(text, []))

    async def deliver(
        self, api: SlackApi, row: MessengersMessage, person: MessengersPerson, edited: str | None
    ) -> str | None:
        given = content(row.text, row.buttons)
        if row.kind == EDIT:
            await api.to_channel("chat.update", person.chat, ts=edited, **given)
            return None
        found = (await api.to_channel("chat.postMessage", person.chat, **given)).get("ts")
        return found if isinstance(found, str) else None

    async def _listens(self, api: SlackApi, inbox: Inbox) -> None:
        pause = bot.FIRST_PAUSE
        while True:
            try:
                if not await asyncio.to_thread(self.held, inbox):
                    await asyncio.sleep(1.0)
                    continue
                team = await self._introduced(api, inbox)
                for one in await asyncio.to_thread(inbox.received):  # of a process that ended before it acted
                    self._put(one)
                await self._connected(api, inbox, team)
                pause = bot.FIRST_PAUSE
            except NotHeld:
                await asyncio.sleep(1.0)
            except Refusal as error:
                if error.status in self.revoked:
                    await self.trouble(inbox, f"Slack does not know a token, or gives it too little: {error}")
                    raise Revoked(str(error)) from None
                await self.trouble(inbox, str(error))
                wait = error.wait or pause
                log.warning("messengers.not_connected", messenger=self.name, error=str(error), seconds=round(wait, 1))
                await asyncio.sleep(wait * random.uniform(1.0, 1.2))
                pause = min(pause * 2, bot.LONGEST_PAUSE)
            except AWAY as error:
                log.warning("messengers.database_away", error=str(error).splitlines()[0])
                await asyncio.sleep(3.0)

    async def _introduced(self, api: SlackApi, inbox: Inbox) -> str:
        """Return the bot's workspace."""
        found = await api.call("auth.test")
        team, name = found.get("team_id"), found.get("user")
        if not isinstance(team, str):
            raise Refusal("Slack says no workspace of the bot", 200)
        if isinstance(name, str):
            await asyncio.to_thread(self.note_bot, inbox, name=name)
        return team

    async def _connected(self, api: SlackApi, inbox: Inbox, team: str) -> None:
        """Take what comes until Slack ends the socket, as it does every few hours, or another process has the lease."""
        socket = await api.socket()
        try:
            reading = asyncio.create_task(socket.receive())
            while True:
                await asyncio.wait([reading], timeout=bot.HOLD_SECONDS)
                if not reading.done():
                    if not await asyncio.to_thread(self.held, inbox):
                        raise NotHeld
                    continue
                message = reading.result()
                if message.type is not aiohttp.WSMsgType.TEXT:
                    return
                reading = asyncio.create_task(socket.receive())
                envelope = object_of(message.data)
                if envelope is not None and envelope.get("type") == "disconnect":
                    return
                if envelope is not None:
                    await self._take(socket, inbox, envelope, team)
        finally:
            reading.cancel()
            with contextlib.suppress(BaseException):
                await reading
            with contextlib.suppress(Exception):
                await socket.close()

    async def _take(
        self, socket: aiohttp.ClientWebSocketResponse, inbox: Inbox, envelope: dict[str, Any], team: str
    ) -> None:
        """Keep an update, then answer Slack: what is not answered is given again."""
        if envelope.get("type") == "hello":
            await asyncio.to_thread(self._note_connected, inbox)
            return
        id_ = envelope.get("envelope_id")
        if not isinstance(id_, str):
            return
        one = incoming(envelope, team)
        new = one is not None and await asyncio.to_thread(inbox.receive, one)
        with contextlib.suppress(ConnectionError, RuntimeError):  # a socket that has ended: it comes again
            await socket.send_json({"envelope_id": id_})
        if one is not None and new:
            self._put(one)

    def _put(self, one: Incoming) -> None:
        self._order += 1
        self._waiting.put_nowait((0 if inbound.is_halt(one) else 1, self._order, one))

    async def _acts(self, inbox: Inbox) -> None:
        """Act on what was kept, halts first."""
        while True:
            _, _, one = await self._waiting.get()
            while True:
                try:
                    await asyncio.to_thread(inbox.take, one, None)
                    self._wake.set()
                except NotHeld:
                    pass  # the process that has the lease finds it in the database
                except AWAY as error:
                    log.warning("messengers.database_away", error=str(error).splitlines()[0])
                    await asyncio.sleep(3.0)
                    continue
                break

    def _note_connected(self, inbox: Inbox) -> None:
        with self._store.session() as session:
            if not inbox.holds(session):
                raise NotHeld
            note_polled(session, self.name, None, utcnow())


def content(text: str, buttons: list[list[str]]) -> dict[str, Any]:
    """Return a message in blocks of plain text, in which Slack reads no links, names or marks."""
    pieces = [text[place : place + MOST_SECTION] for place in range(0, len(text), MOST_SECTION)] or [" "]
    blocks: list[dict[str, Any]] = [{"type": "section", "text": _plain(piece)} for piece in pieces]
    if buttons:
        elements = [
            {"type": "button", "action_id": f"press-{place}", "text": _plain(label[:MOST_LABEL]), "value": data}
            for place, (label, data) in enumerate(buttons)
        ]
        blocks.append({"type": "actions", "elements": elements})
    shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": shown, "mrkdwn": False, "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def build(settings: Settings, store: Store) -> Slack:
    """Raises SettingError where the app's token is missing."""
    if own_settings(settings, MessengersSettings).slack_app_token is None:
        raise SettingError(
            "DESK_MESSENGERS_SLACK_APP_TOKEN is not set", remedy="Slack needs the bot's token and the app's"
        )
    return Slack(settings, store)
