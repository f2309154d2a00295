"""The gauges of one worker: its steps, its turns in flight, its app-servers and their memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from chordesk.agents.runtime import ProcessStatus
from chordesk.tasks.telemetry.gauges.gauge import Gauge, Reading

MIB = 2**20
STEPS = Gauge("desk_steps_held", "Steps that this worker has in work.")
TURNS = Gauge("desk_turns_in_flight", "Turns of this worker that run now.", ("kind",))
SERVERS = Gauge("desk_app_servers", "App-servers of this worker.", ("kind",))
MEMORY = Gauge("desk_app_server_bytes", "Resident memory of all of them.", ("kind",))
LARGEST = Gauge("desk_app_server_largest_bytes", "Resident memory of the largest of them.", ("kind",))
GAUGES = (STEPS, TURNS, SERVERS, MEMORY, LARGEST)
_Values = dict[tuple[str, ...], float]


def read_own(held: int, servers: Sequence[ProcessStatus] | None) -> Reading:
    """Return the gauges of a worker with `held` steps. servers: of its runtimes; None where they are not known."""
    if servers is None:
        return {STEPS: {(): held}}
    turns: _Values = defaultdict(float)
    count: _Values = defaultdict(float)
    memory: _Values = defaultdict(float)
    largest: _Values = defaultdict(float)
    for one in servers:
        kind = (one.kind,)
        turns[kind] += one.in_flight
        count[kind] += 1
        memory[kind] += one.rss_mb * MIB
        largest[kind] = max(largest[kind], one.rss_mb * MIB)
    return {STEPS: {(): held}, TURNS: turns, SERVERS: count, MEMORY: memory, LARGEST: largest}
