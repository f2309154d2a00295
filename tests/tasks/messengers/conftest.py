"""A desk whose orders wait for a person, its Telegram bot in a thread, and the stand-in of the Bot API."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.messengers.tables import MessengersPerson
from chordesk.models.settings import Settings
from chordesk.models.tables.orders import Approval, Order
from chordesk.tasks.messengers import bot, far_side, people, slack, telegram
from chordesk.tasks.messengers.bot import Bot
from chordesk.tasks.messengers.people import Scope
from tests.fakes.slack import APP_TOKEN, BOT_TOKEN, TEAM, FakeSlack
from tests.fakes.telegram import ADA, TOKEN, FakeTelegram
from tests.stack import wait_for
from tests.tools.orders.desk import Desk, action, make_desk


@dataclass
class Phone:
    """A desk, the far side, and the bot's settings."""

    desk: Desk
    far: Any
    messenger: str = "telegram"

    @property
    def store(self) -> Store:
        return self.desk.store

    @property
    def settings(self) -> Settings:
        return self.desk.settings

    @contextmanager
    def running(self, *, polled: bool = True, **values: Any) -> Iterator[Bot[Any]]:
        """The bot works until the block ends. polled: it has fetched what waited before the block begins."""
        settings = self.settings.model_copy(update=values)
        build = {"telegram": telegram.build, "slack": slack.build}[self.messenger]
        bot, stop = build(settings, self.store), threading.Event()
        failures: list[BaseException] = []

        def work() -> None:
            try:
                bot.run(stop, lambda session: True)
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            if polled and self.messenger == "slack":
                wait_for(lambda: self.far.connected or failures, "it is connected")
            elif polled:
                calls = self.far.given("getUpdates")
                wait_for(lambda: self.far.given("getUpdates") > calls + 1 or failures, "what waited is fetched")
            yield bot
        finally:
            stop.set()
            thread.join(30)
        assert not thread.is_alive()
        assert failures == []

    def code(self, name: str = "ada", *scopes: Scope, **given: Any) -> str:
        chosen = scopes or tuple(Scope)
        with self.store.session() as session:
            return people.make_code(session, self.settings, self.messenger, name, chosen, "me@here", **given)

    def pair(self, user: Any = ADA, name: str = "ada", *scopes: Scope, **given: Any) -> None:
        """Pair a person as a code does, without the far side."""
        code = self.code(name, *scopes, **given)
        with self.store.session() as session:
            as_user, chat = (str(user), str(user)) if self.messenger == "telegram" else (f"{TEAM}:{user}", f"D{user}")
            made = people.pair(session, self.settings, self.messenger, code, as_user, chat, private=True)
            assert made is not None

    def asks(self, *symbols: str) -> list[str]:
        """Orders that wait from now on; their ids."""
        outcomes = self.desk.run(*(action(symbol) for symbol in symbols))
        assert {one.state for one in outcomes} == {"approval_pending"}
        return [str(one.order_id) for one in outcomes]

    def state(self, order: str) -> str:
        with self.store.read() as session:
            return session.get_one(Order, order).state

    def approval(self, order: str) -> Approval:
        with self.store.read() as session:
            return session.exec(select(Approval).where(col(Approval.order_id) == order)).one()

    def people(self) -> list[MessengersPerson]:
        with self.store.read() as session:
            return list(people.listed(session))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for real people's pace."""
    for module, name, value in (
        (bot, "LOOK_SECONDS", 0.03), (bot, "HOLD_SECONDS", 0.2), (bot, "FIRST_PAUSE", 0.02),
        (telegram, "FOREIGN_SECONDS", 0.05), (bot, "LONGEST_PAUSE", 0.05),
        (far_side, "CHAT_SECONDS", 0.0), (far_side, "ALL_SECONDS", 0.0),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


@pytest.fixture
def far() -> Iterator[FakeTelegram]:
    with FakeTelegram() as found:
        yield found


@pytest.fixture
def phone(template_db: Path, tmp_path: Path, far: FakeTelegram) -> Iterator[Phone]:
    own = {"messengers_telegram_token": TOKEN, "messengers_telegram_api": far.url}
    desk = make_desk(template_db, tmp_path / "desk", None, approval="manual", notify_zone="UTC", **own)
    yield Phone(desk, far)
    desk.store.close()


@pytest.fixture
def slack_phone(template_db: Path, tmp_path: Path) -> Iterator[Phone]:
    """A desk with a Slack bot, and the stand-in of Slack."""
    with FakeSlack() as far_slack:
        own = {"slack_bot_token": BOT_TOKEN, "slack_app_token": APP_TOKEN, "slack_api": f"{far_slack.url}/api"}
        given = {f"messengers_{name}": value for name, value in own.items()}
        desk = make_desk(template_db, tmp_path / "desk", None, approval="manual", notify_zone="UTC", **given)
        yield Phone(desk, far_slack, "slack")
        desk.store.close()
