"""`desk` with neither events nor telemetry: what the overhead of both is measured against. No setting turns events
off, so this process takes them out of itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from sqlmodel import Session

from agents.codex import process
from agents.codex.runtime import CodexRuntime
from models import event_log
from models.events import Envelope
from tasks.cli.main import main
from tasks.events.recorder import Recorder


def _append(session: Session, events: Iterable[Envelope]) -> None:
    """Instead of `event_log.append`."""


@contextmanager
def _taken(self: Recorder, step_id: str) -> Iterator[Sequence[Envelope]]:
    yield ()


def silence() -> None:
    event_log.append = _append
    Recorder.taken = _taken  # type: ignore[method-assign,assignment]
    process.OPT_OUT = (*process.OPT_OUT, "item/started")
    made = CodexRuntime.__init__

    def unobserved(self: CodexRuntime, *parts: object, **named: object) -> None:
        made(self, *parts, **{**named, "observer": None})  # type: ignore[arg-type]

    CodexRuntime.__init__ = unobserved  # type: ignore[method-assign]


if __name__ == "__main__":
    silence()
    main()
