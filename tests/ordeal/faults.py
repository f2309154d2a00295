"""Which scenarios there are, and how they share desks and seeds."""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import os
import shutil
import time
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from itertools import groupby

from tests.ordeal import orders, runs, trial
from tests.ordeal.crew import (
    BREAKABLE,
    ORDER_CREW,
    SMALL,
    Act,
    FaultDesk,
    Pace,
    Result,
    Scenario,
    fault_desk,
    order_desk,
    order_figures,
    perform,
    table,
)
from tests.ordeal.launch import NO_CLAIM, POINTS, RESEND
from tests.postgres import missing

CLOCK = ("tests.ordeal.launch", "--clock", "{home}/clock")
SWITCHABLE = ("tests.ordeal.launch", "--claim-switch")
# Some roles of LiteLLM beside those of Codex, in the same workers.
BOTH = {
    "DESK_ROLE_MODELS": ";".join(f"{role}=litellm:openai/gpt-5.5" for role in ("screener_technical", "quick", "risk"))
}
TRADES = ("tests.ordeal.launch", "--trades")


def of_orders(
    name: str, act: Act, times: int, *, short: bool = False, claim: bool = True, postgres: bool = False, **environ: str
) -> Scenario:
    switches = () if claim else (NO_CLAIM,)
    return Scenario(f"orders: {name}", act, times, short, environ, TRADES, ORDER_CREW, switches, postgres)


# Of a server's, the data is in the small file system.
IN_SMALL = {"DESK_DATABASE_URL": f"sqlite:///{SMALL}/desk.db"}


SCENARIOS: tuple[Scenario, ...] = (
    Scenario("worker killed", runs.worker_killed, times=20, short=True),
    Scenario("app-server killed", runs.app_server_killed, times=4, short=True),
    Scenario("Redis killed and restarted", runs.redis_killed, times=4, short=True),
    Scenario("Redis flushed", runs.redis_flushed, times=3),
    Scenario("Redis empty", runs.redis_without_its_file, times=2),
    Scenario("Redis stopped for 20 s", runs.redis_stopped, times=2),
    Scenario("Redis vanished", runs.redis_vanished, times=2),
    Scenario("provider switched twice", runs.provider_switched, times=2),
    Scenario("worker and Redis killed", runs.worker_and_redis_killed, times=2),
    Scenario("rolling restart", runs.rolling_restart, times=2),
    Scenario("drained, turns given back", runs.turns_given_back, times=2, environ={"DESK_DRAIN_SECONDS": "1"}),
    Scenario("every message twice", runs.every_message_twice, times=2, short=True),
    Scenario("database away", runs.database_away, times=3),
    Scenario("database's disk full", runs.disk_lost, times=2, environ=IN_SMALL),
    Scenario("home's disk broken", runs.disk_lost, times=2, environ={BREAKABLE: "1"}),
    Scenario("PostgreSQL's disk full", runs.disk_lost, times=2, environ=IN_SMALL, postgres=True),
    Scenario("vault's disk full", runs.disk_lost, times=2, environ={"DESK_BLOB_URL": f"{SMALL}/vault"}),
    Scenario("reports' disk full", runs.disk_lost, times=2, environ={"DESK_REPORT_URL": f"{SMALL}/reports"}),
    Scenario(
        "vault's inodes used up",
        partial(runs.disk_lost, inodes=True),
        times=2,
        environ={"DESK_BLOB_URL": f"{SMALL}/vault"},
    ),
    Scenario("no files to open", runs.no_files_to_open, times=2),
    Scenario("desk suspended", runs.desk_suspended, times=2),
    Scenario("clock moved", runs.clock_moved, times=2, launcher=CLOCK),
    Scenario("model: 429, Retry-After", runs.too_many_requests),
    Scenario("model: bursts of 500", runs.server_errors),
    Scenario("model: cut streams", runs.cut_streams),
    Scenario("model: lines no JSON", runs.broken_lines),
    Scenario("model: silence", runs.silence),
    Scenario("model: invalid answers", runs.invalid_answers),
    Scenario("model: refusals", runs.refusals),
    Scenario("episode: worker killed", runs.voices_killed, times=6, short=True),
    Scenario("graphs: 5, killed 4 times", partial(runs.workers_killed, 5, 1, 4)),
    Scenario("graphs: 20, killed 30 times", partial(runs.workers_killed, 20, 2, 30), times=3),
    Scenario("stopped in every phase", runs.stopped_in_every_phase, times=2),
    Scenario("both runtimes: worker killed", runs.worker_killed, times=6, environ=BOTH),
    Scenario("both runtimes: rolling restart", runs.rolling_restart, environ=BOTH),
    Scenario("both runtimes: bursts of 500", runs.server_errors, environ=BOTH),
    Scenario("both runtimes: cut replies", runs.cut_streams, environ=BOTH),
    Scenario("both runtimes: half a JSON", runs.broken_lines, environ=BOTH),
    Scenario("both runtimes: silence", runs.silence, environ=BOTH),
    Scenario("both runtimes: invalid answers", runs.invalid_answers, environ=BOTH),
    Scenario("both runtimes: refusals", runs.refusals, environ=BOTH),
    # First, for it closes whatever others would have left.
    of_orders("halted while sending", orders.halted_while_sending, 6),
    *(
        of_orders(f"killed, {point}", partial(orders.killed_at, point), 5, short=point == "answered")
        for point in POINTS
    ),
    of_orders("killed, broker holds it", orders.held_by_broker, 6),
    of_orders("killed at random", orders.killed_at_random, 10),
    of_orders("broker accepts, then fails", orders.broker_fails_after_it_accepted, 6),
    of_orders("delivered twice, no claim", orders.delivered_twice, 5, claim=False),
    of_orders("two trade workers, no claim", orders.two_trade_workers, 5, claim=False),
    of_orders("killed, filled in parts", orders.killed_half_filled, 5, short=True),
    of_orders("Redis killed and restarted", orders.redis_killed, 5),
    of_orders("database away", orders.database_away, 3),
    of_orders("database's disk full", orders.disk_lost, 4, **IN_SMALL),
    of_orders("home's disk broken", orders.disk_lost, 4, **{BREAKABLE: "1"}),
    of_orders("PostgreSQL's disk full", orders.disk_lost, 4, postgres=True, **IN_SMALL),
    of_orders("stream of fills lost", orders.stream_lost, 4),
    of_orders("killed at every step, PostgreSQL", orders.killed_at_every_step, 2, postgres=True),
    of_orders("two trade workers, PostgreSQL", orders.two_trade_workers, 2, claim=False, postgres=True),
    Scenario("everything at once", trial.everything, times=2, crew=trial.CREW),
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
    if BREAKABLE in first.environ and shutil.which("cc") is None:
        return [Result(scenario.name, skipped="skipped: no C compiler") for scenario, _ in lane]
    if (SMALL in str(first.environ) or first.crew == trial.CREW) and os.geteuid() != 0:
        return [Result(scenario.name, skipped="skipped: only root can mount a file system") for scenario, _ in lane]
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
    if crew == trial.CREW:
        return trial.up_desk(pace)
    if crew == ORDER_CREW:
        return order_desk(pace, *launcher, crew=crew, postgres=scenario.postgres, **environ)
    return fault_desk(pace, *launcher, crew=crew, postgres=scenario.postgres, **environ)


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


TAKEOVER_SECONDS = 15.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ordeal.faults")
    parser.add_argument("--short", action="store_true", help="the scenarios of `make test`, once each, short leases")
    parser.add_argument("--only", default="", help="scenarios whose name holds this word")
    parser.add_argument("--seeds", type=int, help="repetitions of each scenario, instead of its own number")
    parser.add_argument("--lanes", type=int, default=LANES, help="desks at once")
    parser.add_argument("--no-claim", action="store_true", help="switch the claim off; the suite must fail then")
    parser.add_argument("--resend", action="store_true", help="orders are sent again; those scenarios must fail then")
    given = parser.parse_args()
    chosen = [item for item in SCENARIOS if given.only in item.name and (item.short or not given.short)]
    if not chosen:
        parser.error(f"no scenario named {given.only!r}; there are {', '.join(item.name for item in SCENARIOS)}")
    if given.seeds:
        chosen = [dataclasses.replace(item, times=given.seeds) for item in chosen]
    if given.no_claim:
        chosen = [without_claim(item) for item in chosen if not item.launcher]
    if given.resend:
        chosen = [alone(with_resend(item)) for item in chosen if item.crew == ORDER_CREW]
    results = run(chosen, SHORT if given.short else LONG, given.lanes, once=given.short)
    print(f"\n{table(results)}")
    if figures := order_figures(results):
        print(f"\n{figures}")
    slowest = max((result.takeover for result in results if result.name == "worker killed"), default=None)
    if slowest is not None and not given.short:
        print(f"\nslowest takeover after SIGKILL of a worker: {slowest:.1f} s, at most {TAKEOVER_SECONDS:g}")
    late = slowest is not None and slowest > TAKEOVER_SECONDS
    return 1 if late or not all(result.findings.clean for result in results) else 0


if __name__ == "__main__":
    raise SystemExit(main())
