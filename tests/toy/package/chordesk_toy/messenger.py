"""Letters to the desk: a messenger to which nobody has written yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from sqlmodel import Session

from chordesk.plugins import Settings, Store


class Post:
    def wires(self) -> Sequence[object]:
        return ()

    def run(self, stop: threading.Event, holds: Callable[[Session], bool]) -> None:
        stop.wait()


def build(settings: Settings, store: Store) -> Post:
    return Post()
