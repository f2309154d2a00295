"""Which scenarios there are, and how they share desks and seeds."""

from __future__ import annotations

import dataclasses
import multiprocessing
import time
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from itertools import groupby

from tests.faults.desk import FaultDesk, Pace, fault_desk
from tests.faults.launch import NO_CLAIM
from tests.faults.orders import fills, halts, outages, scenarios
from tests.faults.orders.desk import ORDER_CREW, order_desk
from tests.faults.orders.launch import POINTS, RESEND
from tests.faults.runs import database, episodes, graphs, kills, messages, model_faults, stops
from tests.faults.scenario import Act, Result, Scenario, perform
from tests.postgres import missing

CLOCK = ("tests.faults.launch", "--clock", "{home}/clock")
SWITCHABLE = ("tests.faults.launch", "--claim-switch")
# Some roles of LiteLLM beside those of Codex, in the same workers.
BOTH = {
    "DESK_ROLE_MODELS": ";".join(f"{role}=litellm:openai/gpt-5.5" for role in ("screener_technical", "quick", "risk"))
}
TRADES = ("tests.faults.orders.launch",)


def of_orders(
    name: str, act: Act, times: int, *, short: bool = False, claim: bool = True, postgres: bool = False
) -> Scenario:
    switches = () if claim else (NO_CLAIM,)
    return Scenario(
        f"orders: {name}",
        act,
        times,
        short,
        launcher=TRADES,
        crew=ORDER_CREW,
        switches=switches,
        postgres=postgres,
    )


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
    Scenario("desk suspended", kills.desk_suspended, times=2),
    Scenario("clock moved", messages.clock_moved, times=2, launcher=CLOCK),
    Scenario("model: 429, Retry-After", model_faults.too_many_requests),
    Scenario("model: bursts of 500", model_faults.server_errors, short=True),
    Scenario("model: cut streams", model_faults.cut_streams),
    Scenario("model: lines no JSON", model_faults.broken_lines),
    Scenario("model: silence", model_faults.silence),
    Scenario("model: invalid answers", model_faults.invalid_answers, short=True),
    Scenario("model: refusals", model_faults.refusals, short=True),
    Scenario("episode: worker killed", episodes.worker_killed, times=6, short=True),
    Scenario("graphs: 5, killed 4 times", partial(graphs.workers_killed, 5, 4), short=True),
    Scenario("graphs: 20, killed 30 times", partial(graphs.workers_killed, 20, 30), times=3),
    Scenario("stopped in every phase", stops.stopped_in_every_phase, times=2),
    Scenario("both runtimes: worker killed", kills.worker_killed, times=6, environ=BOTH),
    Scenario("both runtimes: rolling restart", kills.rolling_restart, environ=BOTH),
    Scenario("both runtimes: bursts of 500", model_faults.server_errors, environ=BOTH),
    Scenario("both runtimes: cut replies", model_faults.cut_streams, environ=BOTH),
    Scenario("both runtimes: half a JSON", model_faults.broken_lines, environ=BOTH),
    Scenario("both runtimes: silence", model_faults.silence, environ=BOTH),
    Scenario("both runtimes: invalid answers", model_faults.invalid_answers, environ=BOTH),
    Scenario("both runtimes: refusals", model_faults.refusals, environ=BOTH),
    # First, for it closes whatever others would have left.
    of_orders("halted while sending", halts.halted_while_sending, 6),
    *(
        of_orders(f"killed, {point}", partial(scenarios.killed_at, point), 5, short=point == "answered")
        for point in POINTS
    ),
    of_orders("killed, broker holds it", scenarios.held_by_broker, 6),
    of_orders("killed at random", scenarios.killed_at_random, 10),
    of_orders("broker accepts, then fails", scenarios.broker_fails_after_it_accepted, 6),
    of_orders("delivered twice, no claim", scenarios.delivered_twice, 5, claim=False),
    of_orders("two trade workers, no claim", scenarios.two_trade_workers, 5, claim=False),
    of_orders("killed, filled in parts", fills.killed_half_filled, 5, short=True),
    of_orders("Redis killed and restarted", outages.redis_killed, 5),
    of_orders("database away", outages.database_away, 3),
    of_orders("stream of fills lost", outages.stream_lost, 4),
    of_orders("killed at every step, PostgreSQL", scenarios.killed_at_every_step, 2, postgres=True),
    of_orders("two trade workers, PostgreSQL", scenarios.two_trade_workers, 2, claim=False, postgres=True),
)

# Of the long version, how many desks work at once: most of a scenario is waiting for a lease to end.
LANES = 3
LONG = Pace()
SHORT = Pace(latency=0.3, lease=3.0, sweep=1.0)

Job = tuple[Scenario, int]


def without_claim(scenario: Scenario) -> Scenario:
    """The same, with steps that any message may take."""
    return dataclasses.replace(switchable(scenario), switches=(NO_CLAIM,))


def switchable(scenario: Scenario) -> Scenario:
    """The same, on a desk that one without its claim may share."""
    return dataclasses.replace(scenario, launcher=scenario.launcher or SWITCHABLE)


def alone(scenario: Scenario) -> Scenario:
    """The same, on a desk that it shares with no other: what it leaves behind is not laid at another's door."""
    return dataclasses.replace(scenario, environ={**scenario.environ, "FAULTS": scenario.name})


def with_resend(scenario: Scenario) -> Scenario:
    """The same, with a trade worker that sends what it should ask about."""
    return dataclasses.replace(scenario, switches=(*scenario.switches, RESEND))


def jobs(scenarios: Iterable[Scenario], *, once: bool) -> list[list[Job]]:
    """Repetitions with their seeds, grouped by the desk they can share; those with a switch on come last."""
    wanted = [
        (scenario, zlib.crc32(f"{scenario.name} {number}".encode()))
        for scenario in scenarios
        for number in range(1 if once else scenario.times)
    ]

    def desk_of(job: Job) -> tuple[object, ...]:
        return (sorted(job[0].environ.items()), job[0].launcher, job[0].crew, job[0].postgres)

    def place(job: Job) -> tuple[object, ...]:
        return (*desk_of(job), len(job[0].switches))

    return [list(group) for _, group in groupby(sorted(wanted, key=place), key=desk_of)]


def deal(group: Sequence[Job], lanes: int) -> list[list[Job]]:
    """One group over several desks, each with a share of every scenario."""
    return [lane for lane in (list(group[number::lanes]) for number in range(lanes)) if lane]


def play(lane: Sequence[Job], pace: Pace, began: float) -> list[Result]:
    """All of a lane on one desk."""
    first = lane[0][0]
    if first.postgres and (why := missing()):
        return [Result(scenario.name, skipped=f"skipped: {why}") for scenario, _ in lane]
    results = []
    with desk_for(first, pace) as desk:
        for scenario, seed in lane:
            result = perform(scenario, desk, seed)
            results.append(result)
            took = f", taken over in {result.takeover:.1f} s" if result.takeover is not None else ""
            notes = "".join(f", {note}" for note in result.notes)
            line = f"{scenario.name}: {result.findings.text() or 'ok'}{took}{notes} ({result.seconds:.0f} s)"
            print(f"{time.monotonic() - began:6.0f} s  {line}", flush=True)
    return results


def desk_for(scenario: Scenario, pace: Pace) -> AbstractContextManager[FaultDesk]:
    launcher, crew, environ = scenario.launcher, scenario.crew, scenario.environ
    if crew == ORDER_CREW:
        return order_desk(pace, *launcher, crew=crew, postgres=scenario.postgres, **environ)
    return fault_desk(pace, *launcher, crew=crew, **environ)


def run(scenarios: Sequence[Scenario], pace: Pace, lanes: int, *, once: bool = False) -> list[Result]:
    """Every scenario's result, in the order of the table. Lanes are processes: migrations and Celery's current app
    are one a process. once: one repetition each, and one desk for all that can share one."""

    def desks(group: Sequence[Job]) -> int:
        return lanes if len(group) > lanes and not once else 1

    work = [lane for group in jobs(scenarios, once=once) for lane in deal(group, desks(group))]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(lanes, mp_context=spawn) as pool:
        lanes_played = pool.map(partial(play, pace=pace, began=time.monotonic()), work)
        played = [result for lane in lanes_played for result in lane]
    merged = {scenario.name: Result(scenario.name) for scenario in scenarios}
    for result in played:
        merged[result.name].merge(result)
    return list(merged.values())
