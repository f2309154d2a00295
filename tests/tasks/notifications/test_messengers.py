"""People of a messenger are channels of the process that sends: they come and go while it runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlmodel import Session, col, select

from chordesk.models.notice_channels import EVERY
from chordesk.models.tables.runtime import Notification
from chordesk.tasks.notifications.channels import Answer, Channel
from chordesk.tasks.notifications.messengers import Wire
from chordesk.tasks.notifications.sender import Sender
from tests.tasks.notifications.conftest import Floor, ended, halted


@dataclass
class Letters:
    """A wire that keeps what it was given."""

    channel: Channel
    service: str = "letters"
    got: list[str] = field(default_factory=list)

    def send(self, title: str, text: str) -> Answer:
        self.got.append(title)
        return Answer(True)


@dataclass
class Post:
    people: list[Letters] = field(default_factory=list)

    def wires(self) -> Sequence[Wire]:
        return self.people

    def run(self, stop: threading.Event, holds: Callable[[Session], bool]) -> None:
        stop.wait()


def test_people_are_written_to_from_their_first_moment_to_their_last(floor: Floor) -> None:
    ada, bob = (Letters(Channel(f"letters:{name}", "", EVERY, None)) for name in ("ada", "bob"))
    post = Post([ada])
    sender = Sender(floor.store, floor.settings, {}, "one", [post])
    floor.senders.append(sender)
    sender.step()
    floor.happens(ended())
    floor.until(lambda: len(ada.got) == 1, "the first person has it")
    post.people = [bob]  # ada is gone, bob came
    sender._held_until = 0.0
    sender.step()
    floor.happens(halted())
    floor.until(lambda: "Desk: Trading is halted or limited" in bob.got, "the second person has the halt")
    assert ada.got == ["Desk: A run has ended"]
    with floor.store.read() as session:
        channels = session.exec(select(Notification.channel).order_by(col(Notification.created_at))).all()
        assert sender.holds(session)
        assert not Sender(floor.store, floor.settings, {}, "two", [post]).holds(session)
    assert set(channels) == {"letters:ada", "letters:bob"}
