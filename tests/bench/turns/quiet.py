"""`desk` with neither events nor telemetry, to measure the cost of both. No setting turns events off, so this process
takes them out of itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from sqlmodel import Session

from chordesk.agents.codex import servers
from chordesk.agents.codex.runtime import CodexRuntime
from chordesk.agents.runtime import Lifecycle, Scope
from chordesk.models import event_log
from chordesk.models.events import Envelope
from chordesk.tasks.cli.main import main
from chordesk.tasks.events.recorder import Recorder


def _append(session: Session, events: Iterable[Envelope]) -> None:
    """Stand in for `event_log.append`."""


def _record(self: Recorder, scope: Scope, events: Sequence[Envelope], lifecycles: Sequence[Lifecycle] = ()) -> None:
    """Stand in for `Recorder.record`."""


@contextmanager
def _taken(self: Recorder, step_id: str) -> Iterator[Sequence[Envelope]]:
    yield ()


def silence() -> None:
    event_log.append = _append
    Recorder.record = _record  # type: ignore[method-assign]
    Recorder.taken = _taken  # type: ignore[method-assign,assignment]
    servers.OPT_OUT = (*servers.OPT_OUT, "item/started")
    made = CodexRuntime.__init__

    def unobserved(self: CodexRuntime, *parts: object, **named: object) -> None:
        made(self, *parts, **{**named, "observer": None})  # type: ignore[arg-type]

    CodexRuntime.__init__ = unobserved  # type: ignore[method-assign]


if __name__ == "__main__":
    silence()
    main()
