"""Work left for one thread: none is lost, and each thread's stays in its order."""

from __future__ import annotations

import threading

from tasks.events.inbox import Inbox
from tests.stack import wait_for

SOON = 10.0


class Reader:
    def __init__(self) -> None:
        self.inbox: Inbox[tuple[int, int]] = Inbox("reader", self._work)
        self.read: list[tuple[int, int]] = []
        self.ended = threading.Event()

    def _work(self) -> None:
        while True:
            self.inbox.expect()
            closing = self.inbox.closing.is_set()
            if found := self.inbox.take(3):
                self.read += found
            elif closing:
                break
            else:
                self.inbox.wait()
        self.ended.set()


def test_all_that_many_threads_put_in_is_read_each_threads_in_order() -> None:
    reader = Reader()
    writers = [
        threading.Thread(target=lambda me=me: [reader.inbox.put((me, number)) for number in range(2_000)])  # type: ignore[misc]
        for me in range(8)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    reader.inbox.close(SOON)
    for me in range(8):
        assert [number for who, number in reader.read if who == me] == list(range(2_000))


def test_a_reader_that_falls_asleep_is_woken() -> None:
    """Each time it has just looked and found nothing."""
    reader = Reader()
    for number in range(3_000):
        reader.inbox.put((0, number))
        while len(reader.read) <= number:
            assert not reader.ended.is_set()
    reader.inbox.close(SOON)
    assert reader.ended.is_set()


def test_one_that_is_closed_reads_what_is_left_and_begins_no_thread() -> None:
    reader = Reader()
    for number in range(10):
        reader.inbox.put((0, number))
    reader.inbox.close(SOON)
    wait_for(reader.ended.is_set, "its thread ends")
    assert len(reader.read) == 10
    late = Reader()
    late.inbox.close(SOON)
    late.inbox.put((0, 1))
    assert not late.ended.is_set()
    assert len(late.inbox) == 1


def idle() -> Inbox[int]:
    return Inbox("idle", lambda: None)


def test_waiting_ends_in_time() -> None:
    inbox = idle()
    inbox.expect()
    assert not inbox.wait(0.01)


def test_what_another_has_taken_out_by_then_is_a_reason_to_look_again() -> None:
    """Whoever took it may have put it where the thread looks."""
    inbox = idle()
    inbox.expect()
    inbox.put(1)
    assert inbox.take(1) == [1]
    assert inbox.wait(0)


def test_nobody_waits_for_one_that_is_closed_or_was_woken() -> None:
    inbox = idle()
    inbox.expect()
    inbox.wake()
    assert inbox.wait(0)
    inbox.close(SOON)
    inbox.expect()
    assert inbox.wait(0)
