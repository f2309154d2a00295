"""A far side for channels, and a sender that the test drives step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.events import DESK, Envelope, EventType, event
from chordesk.models.settings import Settings
from chordesk.models.states import TradingState
from chordesk.tasks.notifications import sender
from chordesk.tasks.notifications.apprise_wire import wires
from chordesk.tasks.notifications.channels import channels
from chordesk.tasks.notifications.sender import Sender
from tests.fakes.channel import FakeChannel
from tests.stack import wait_for

RUN = "0123456789abcdef"


def halted(why: str = "a test") -> Envelope:
    return event(EventType.ORDER_TRADING, DESK, account="paper", state=TradingState.HALTED.value, why=why, by="me@host")


def filled(symbol: str = "IBM", run_id: str = RUN, account: str = "paper") -> Envelope:
    facts = {"order": "o-1", "fill": "f", "account": account, "symbol": symbol, "side": "buy"}
    return event(EventType.ORDER_FILL, run_id, **facts, quantity=10.0, price=12.5)


def unknown(symbol: str = "IBM", run_id: str = RUN) -> Envelope:
    facts = {"order": "o-1", "state": "unknown", "was": "submitting", "account": "paper", "symbol": symbol}
    return event(EventType.ORDER_STATE, run_id, **facts, action="open", side="buy", quantity=10.0, code=None, why=None)


def ended(run_id: str = RUN, state: str = "done") -> Envelope:
    return event(EventType.RUN_COMPLETED, run_id, kind="screen", state=state, account="paper", notes=["No data."])


@dataclass
class Floor:
    """A database with events, the far side, and senders that the test drives."""

    store: Store
    far: FakeChannel
    settings: Settings
    senders: list[Sender] = field(default_factory=list)

    def with_(self, **values: object) -> Settings:
        return Settings.model_validate({**self.settings.model_dump(exclude_unset=True), **values})

    def sender(self, owner: str = "one", **values: object) -> Sender:
        settings = self.with_(**values)
        made = Sender(self.store, settings, wires(channels(settings)), owner)
        self.senders.append(made)
        made.step()
        return made

    def happens(self, *events: Envelope) -> None:
        with self.store.session() as session:
            event_log.append(session, events)

    def until(self, condition: Callable[[], bool], what: str, *senders: Sender) -> None:
        """Drive the senders until the condition holds."""

        def driven() -> bool:
            for one in senders or self.senders[-1:]:
                one.step()
            return condition()

        wait_for(driven, what)


@pytest.fixture(autouse=True)
def no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "WINDOW_SECONDS", 0)


@pytest.fixture
def far() -> Iterator[FakeChannel]:
    with FakeChannel() as found:
        yield found


@pytest.fixture
def floor(store: Store, far: FakeChannel) -> Floor:
    settings = Settings(notify_channels=far.variable("phone"), notify_zone="UTC")
    return Floor(store, far, settings)
