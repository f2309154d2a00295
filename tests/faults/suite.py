"""Which scenarios there are, and how they share desks and seeds."""

from __future__ import annotations

import dataclasses
import multiprocessing
import time
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import groupby

from tests.faults import database, kills, messages, model_faults, orders, stops
from tests.faults.desk import Pace, fault_desk
from tests.faults.orders_desk import ORDER_CREW, order_desk
from tests.faults.orders_launch import POINTS
from tests.faults.scenario import Act, Result, Scenario, perform

CLOCK = ("tests.faults.launch", "--clock", "{home}/clock")
NO_CLAIM = ("tests.faults.launch", "--no-claim")
TRADES = ("tests.faults.orders_launch",)
TRADES_UNCLAIMED = (*TRADES, "--no-claim")


def of_orders(name: str, act: Act, times: int, *, short: bool = False, claim: bool = True) -> Scenario:
    launcher = TRADES if claim else TRADES_UNCLAIMED
    return Scenario(f"orders: {name}", act, times, short, launcher=launcher, crew=ORDER_CREW)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario("worker killed", kills.worker_killed, times=20, short=True),
    Scenario("app-server killed", kills.app_server_killed, times=4, short=True),
    Scenario("Redis killed and restarted", kills.redis_killed, times=4, short=True),
    Scenario("Redis flushed", kills.redis_flushed, times=3, short=True),
    Scenario("worker and Redis killed", kills.worker_and_redis_killed, times=2),
    Scenario("rolling restart", kills.rolling_restart, times=2),
    Scenario("drained, turns given back", kills.turns_given_back, times=2, environ={"DESK_DRAIN_SECONDS": "1"}),
    Scenario("two beats", kills.two_beats),
    Scenario("every message twice", messages.every_message_twice, times=2, short=True),
    Scenario("database away", database.database_away, times=3),
    # No process would be silent for so long if the clock that counts its silence slept as well.
    Scenario("desk suspended", kills.desk_suspended, times=2, environ={"DESK_NO_PROGRESS_SECONDS": "90"}),
    Scenario("clock moved", messages.clock_moved, times=2, launcher=CLOCK),
    Scenario("model: 429, Retry-After", model_faults.too_many_requests),
    Scenario("model: bursts of 500", model_faults.server_errors, short=True),
    Scenario("model: cut streams", model_faults.cut_streams),
    Scenario("model: lines no JSON", model_faults.broken_lines),
    Scenario("model: silence", model_faults.silence),
    Scenario("model: invalid answers", model_faults.invalid_answers, short=True),
    Scenario("model: refusals", model_faults.refusals, short=True),
    Scenario("stopped in every phase", stops.stopped_in_every_phase, times=2),
    *(
        of_orders(f"killed, {point}", partial(orders.killed_at, point), 5, short=point == "answered")
        for point in POINTS
    ),
    of_orders("killed, broker holds it", orders.held_by_broker, 6),
    of_orders("killed at random", orders.killed_at_random, 10),
    of_orders("broker accepts, then fails", orders.broker_fails_after_it_accepted, 6),
    of_orders("delivered twice, no claim", orders.delivered_twice, 5, claim=False),
    of_orders("two trade workers, no claim", orders.two_trade_workers, 5, claim=False),
)

# Of the long version, how many desks work at once: most of a scenario is waiting for a lease to end.
LANES = 3
LONG = Pace()
SHORT = Pace(latency=0.3, lease=3.0, sweep=1.0)

Job = tuple[Scenario, int]


def without_claim(scenario: Scenario) -> Scenario:
    """The same, with steps that any message may take."""
    return dataclasses.replace(scenario, launcher=NO_CLAIM)


def with_resend(scenario: Scenario) -> Scenario:
    """The same, with a trade worker that sends what it should ask about."""
    return dataclasses.replace(scenario, launcher=(TRADES[0], "--resend"))


def jobs(scenarios: Iterable[Scenario], *, once: bool) -> list[list[Job]]:
    """Repetitions with their seeds, grouped by the desk they can share."""
    wanted = [
        (scenario, zlib.crc32(f"{scenario.name} {number}".encode()))
        for scenario in scenarios
        for number in range(1 if once else scenario.times)
    ]

    def desk_of(job: Job) -> tuple[object, ...]:
        return (sorted(job[0].environ.items()), job[0].launcher, job[0].crew)

    return [list(group) for _, group in groupby(sorted(wanted, key=desk_of), key=desk_of)]


def deal(group: Sequence[Job], lanes: int) -> list[list[Job]]:
    """One group over several desks, each with a share of every scenario."""
    return [lane for lane in (list(group[number::lanes]) for number in range(lanes)) if lane]


def play(lane: Sequence[Job], pace: Pace, began: float) -> list[Result]:
    """All of a lane on one desk."""
    first = lane[0][0]
    results = []
    build = order_desk if first.crew == ORDER_CREW else fault_desk
    with build(pace, *first.launcher, crew=first.crew, **first.environ) as desk:
        for scenario, seed in lane:
            result = perform(scenario, desk, seed)
            results.append(result)
            took = f", taken over in {result.takeover:.1f} s" if result.takeover is not None else ""
            notes = "".join(f", {note}" for note in result.notes)
            line = f"{scenario.name}: {result.findings.text() or 'ok'}{took}{notes} ({result.seconds:.0f} s)"
            print(f"{time.monotonic() - began:6.0f} s  {line}", flush=True)
    return results


def run(scenarios: Sequence[Scenario], pace: Pace, lanes: int, *, once: bool = False) -> list[Result]:
    """Every scenario's result, in the order of the table. Lanes are processes: migrations and Celery's current app
    are one a process."""
    work = [lane for group in jobs(scenarios, once=once) for lane in deal(group, lanes if len(group) > lanes else 1)]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(lanes, mp_context=spawn) as pool:
        lanes_played = pool.map(partial(play, pace=pace, began=time.monotonic()), work)
        played = [result for lane in lanes_played for result in lane]
    merged = {scenario.name: Result(scenario.name) for scenario in scenarios}
    for result in played:
        merged[result.name].merge(result)
    return list(merged.values())
