"""Runs on a desk of real processes, with their telemetry sent to this test."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chordesk.models.database.store import Store
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.runs import Run
from tests.fakes.otlp import Collector, Seen
from tests.stack import Processes, free_port, processes, wait_for
from tests.tasks.worker.steps import get_run


@dataclass(frozen=True, slots=True)
class TelemetryDesk:
    """Desk that fills on paper, and the places of its telemetry."""

    desk: Processes
    collector: Collector
    file: Path
    ports: Mapping[str, int] = field(default_factory=dict)

    @property
    def store(self) -> Store:
        return self.desk.app.desk.store

    def ended(self, run: Run) -> Run:
        wait_for(lambda: get_run(self.store, run.id).state in RUN_FINAL, "the run ends")
        return get_run(self.store, run.id)

    def lines(self, run: Run) -> list[dict[str, Any]]:
        """Return the lines of a run in the file."""
        rows = [json.loads(line) for line in self.file.read_text().splitlines()]
        return [row for row in rows if row["run_id"] == run.id]

    def trace(self, run: Run) -> list[Seen]:
        """The spans of a run that has ended, once its last ones have come: they are sent about every second, by each
        process by itself."""
        seen: list[int] = []

        def settled() -> bool:
            seen.append(len(self.collector.spans(run.id)))
            return len(seen) > 60 and len(set(seen[-60:])) == 1 and any(not one.parent for one in self.spans(run))

        wait_for(settled, "the run's spans have come")
        return self.spans(run)

    def spans(self, run: Run) -> list[Seen]:
        return self.collector.spans(run.id)


@contextmanager
def telemetry_desk(*workers: str, metrics: bool = False, **environ: str) -> Iterator[TelemetryDesk]:
    """environ: settings of all the desk's processes. metrics: each worker has a port of its own for them."""
    with Collector() as collector, processes(TRADER_LIVE="1", DESK_TRACE_URL=collector.url, **environ) as desk:
        file = desk.home / "telemetry" / "telemetry.jsonl"
        desk.environ["DESK_TELEMETRY_FILE"] = str(file)
        desk.rulebook()
        ports = {worker: free_port() for worker in workers if metrics}
        for worker in workers:
            desk.start_worker(worker, environ={"DESK_METRICS_PORT": str(ports.get(worker, 0))})
        desk.await_workers(*workers)
        yield TelemetryDesk(desk, collector, file, ports)
