"""A process that ends between any two steps of an approval: one approval, one reply, one card that says it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlmodel import Session, select

from chordesk.models.messengers.tables import MessengersBot
from chordesk.models.tables.orders import Approval, Order, Trading
from chordesk.tasks.messengers import telegram
from chordesk.tools.brokers.protocol import build_broker
from chordesk.tools.market.factory import build_market
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.audit import log_path
from tests import zygote
from tests.fakes.telegram import ADA, FakeTelegram
from tests.parts import needs
from tests.patience import PATIENCE
from tests.stack import Processes, processes, wait_for
from tests.tasks.messengers.conftest import Phone
from tests.tools.orders.desk import Desk, action


class Killed(BaseException):
    """What no code handles: the process has ended."""


@dataclass
class Lease:
    """Ends the process at the n-th look at the lease, with which each of its steps begins."""

    ends_at: int
    looks: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, session: Session) -> bool:
        with self.lock:
            self.looks += 1
            if self.looks >= self.ends_at:
                raise Killed
        return True


def decisions(phone: Phone) -> int:
    lines = [json.loads(line) for line in log_path(phone.settings).read_text().splitlines()]
    return sum(line["kind"] == "approval_decided" for line in lines)


@pytest.mark.parametrize("ends_at", [1, 3, 6, 10, 15])
def test_killed_at_any_step_an_approval_is_given_and_told_once(phone: Phone, ends_at: int) -> None:
    phone.pair()
    far = phone.far
    with phone.running():
        (order,) = phone.asks("AAA")
        card = far.until(ADA, "buy 10 AAA")
        wait_for(lambda: _polled(phone), "it has polled")
    far.presses(ADA, card.buttons["Approve"])
    bot = telegram.build(phone.settings, phone.store)

    def work() -> None:
        with contextlib.suppress(Killed):
            bot.run(threading.Event(), Lease(ends_at))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    with phone.running():
        wait_for(lambda: phone.state(order) == "approved", "it is approved")
        wait_for(lambda: card.buttons == {}, "the card says it")
        far.says(ADA, "/help")
        far.until(ADA, "You are ada")
    assert decisions(phone) == 1
    assert len(far.with_words(ADA, "it is sent within a minute")) == 1


def _polled(phone: Phone) -> bool:
    with phone.store.read() as session:
        bot = session.get(MessengersBot, "telegram")
    return bot is not None and bot.polled_at is not None


@needs("notifications")
@pytest.mark.process
@pytest.mark.long
def test_a_notify_process_killed_while_it_answers_leaves_one_of_each(far: FakeTelegram) -> None:
    """The walk of docs/chat.md with `desk notify run` and a bot alone: paired, a card, an approval, a question, a halt.
    The process is killed before its reply has an answer, and another takes over."""
    given = {**far.environ(), "TRADER_LIVE": "1", "DESK_APPROVAL": "manual", "DESK_COOLDOWN_HOURS": "0"}
    with processes(**given) as running:
        store, settings = running.app.desk.store, running.settings
        market = build_market(settings)
        desk = Desk(store, settings, market, build_broker(settings, market, store), FencingLease(store, "paper", "a"))
        running.desk("notify", "notify", "run")
        printed = command(running, "chat", "pair", "ada", "--scope", "decide,halt")
        far.says(ADA, printed[printed.index("/pair") :].strip())
        far.until(ADA, "Paired as ada. You may: decide, halt, read.")
        (outcome,) = desk.run(action("AAPL"))
        card = far.until(ADA, "AAPL")

        def kill(method: str, body: dict[str, Any]) -> None:
            if method == "sendMessage" and "approved by ada" in body["text"]:
                far.on = None
                os.kill(running.running["notify"].pid, signal.SIGKILL)

        far.on = kill
        far.presses(ADA, card.buttons["Approve"])
        far.until(ADA, "approved by ada")
        wait_for(lambda: far.on is None, "it is killed")
        running.desk("notify", "notify", "run")
        wait_for(lambda: card.buttons == {}, "the card says it")
        far.says(ADA, "/help")
        far.until(ADA, "You are ada")
        with store.read() as session:
            assert session.get_one(Order, str(outcome.order_id)).state == "approved"
            assert session.exec(select(Approval.decided_by)).all() == ["ada via Telegram"]
        assert len(far.with_words(ADA, "it is sent within a minute")) == 1
        far.says(ADA, "/why AAPL")
        wait_for(lambda: any("AAPL" in one.text for one in far.of(ADA)[-1:]), "the question has an answer")
        far.says(ADA, "/halt")
        far.until(ADA, "Trading is halted.")
        with store.read() as session:
            assert session.get_one(Trading, "paper").by == "ada via Telegram"
        command(running, "chat", "revoke", "ada")
        far.says(ADA, "/help")
        assert "revoked" in command(running, "chat", "list")
        assert far.with_words(ADA, "You are ada") == far.with_words(ADA, "You are ada")[:1]


def command(running: Processes, *arguments: str) -> str:
    done = zygote.run(arguments, running.environ, running.home, PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
