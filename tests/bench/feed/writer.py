"""Process that records so many events of a run, at a pace, as a worker does."""

from __future__ import annotations

import argparse
import time

from chordesk.agents.runtime import Scope
from chordesk.models.events import EventType, event
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.worker import logs

TEXT = "The trend is up and the volume confirms it. " * 5


def main(run_id: str, count: int, pace: float) -> None:
    """pace: events a second; 0 is without a pause."""
    settings = load_settings()
    logs.configure(settings)
    desk = Desk(settings, "writer")
    recorder = desk.recorder
    began = time.perf_counter()
    for number in range(count):
        if pace and (ahead := began + number / pace - time.perf_counter()) > 0:
            time.sleep(ahead)
        keys = {"thread_id": "thread", "turn_id": f"turn-{number // 8}", "item_id": f"item-{number}"}
        recorder.record(Scope(run_id), [event(EventType.ITEM_COMPLETED, run_id, **keys, text=TEXT)])
    desk.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("run_id")
    parser.add_argument("count", type=int)
    parser.add_argument("pace", type=float)
    given = parser.parse_args()
    main(given.run_id, given.count, given.pace)
