"""`make bench`: absolutes and ratios of one run of this machine, each with the bound it is held to."""

from __future__ import annotations

import argparse

from models.settings.sources import load_settings
from tasks.worker import logs
from tests.bench.commands import command_cpu
from tests.bench.overhead import overhead
from tests.bench.repeat import repeated
from tests.bench.replay import replay
from tests.bench.scaling import TURNS, crowd, scaling
from tests.bench.screen import ScreenTimes, screen_times
from tests.bench.throughput import Throughput, throughput

PARTS = ("throughput", "screen", "scaling", "crowd", "replay", "overhead", "tokens", "commands")
READERS, EVENTS, PACE = 200, 5_000, 500
WORKER_MS, EVENTS_MS = 6.0, 3.0
SCREENS, CANDIDATES = 5, 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("part", nargs="?", choices=PARTS, help="one part alone")
    given = parser.parse_args()
    logs.configure(load_settings({"DESK_LOG_LEVEL": "WARNING"}))
    parts = {
        "throughput": lambda: show_throughput(given.turns, given.rounds),
        "screen": show_screen,
        "scaling": show_scaling,
        "crowd": show_crowd,
        "replay": show_replay,
        "overhead": lambda: show_overhead(given.turns, given.rounds),
        "tokens": show_tokens,
        "commands": lambda: show_commands(given.rounds),
    }
    for name in [given.part] if given.part else PARTS:
        parts[name]()


def show_throughput(turns: int, rounds: int) -> None:
    ephemeral = throughput("quick", turns, 64, rounds)
    kept = throughput("risk", turns, 64, rounds)
    print("(a) turns per second, 64 at once, one tool call and two model calls a turn, zero latency")
    show(ephemeral, "ephemeral", 0.7, 100.0)
    show(kept, "thread-keeping", 0.95, None)
    print("(c) resident memory of the worker and its app-servers at 64 turns at once")
    line("ephemeral and kept, the larger", f"{max(ephemeral.peak_mb, kept.peak_mb):.0f} MiB", "at most 700")


def show_screen() -> None:
    show_one_screen(screen_times(1.0, 20), "")
    show_one_screen(screen_times(1.0, 20, speculate=True), ", DESK_SPECULATE=on")


def show_one_screen(found: ScreenTimes, how: str) -> None:
    longest = f"{found.most_calls} model calls in the longest turn, at most 3"
    print(f"(b) the whole universe, {found.candidates} candidates, {found.turns} turns, 1.0 s a model call{how}")
    line("wall", f"{found.wall:.1f} s", "")
    line("critical path", f"{found.critical_path:.1f} s", f"{found.longest_chain} calls; {longest}")
    line("model-seconds / slots", f"{found.slot_floor:.1f} s", "")
    line("ratio", f"{found.ratio:.2f}", "at most 1.2")
    print("(d) after the run was opened")
    line("first report", f"{found.first_report:.1f} s", "")
    line("first verdict", f"{found.first_verdict:.1f} s", "")


def show_scaling() -> None:
    found = scaling(1.0, 20)
    print(f"(e) the same screen on one worker process and on two, 1.0 s a model call, {TURNS} turns an app-server")
    line("one", f"{found.one:.1f} s", "")
    line("two", f"{found.two:.1f} s", "")
    line("faster by", f"{found.faster:.2f}", "at least 1.7")


def show_crowd() -> None:
    found = crowd(50, 5)
    print(f"(f) {found.runs} research runs of 5 symbols queued at once, zero latency")
    line("ended as done", f"{found.ended}", f"all {found.runs}")
    line("reports, verdicts", f"{found.reports}, {found.verdicts}", "")
    line("wall", f"{found.seconds:.1f} s", f"{found.seconds / max(found.reports, 1) * 1000:.1f} ms a report")
    line("CPU of worker and ops a report", f"{found.cpu_ms:.1f} ms", "without their app-servers")


def show_replay() -> None:
    print(f"(g) {READERS} readers that come and go at random while two processes write {EVENTS} events of one run")
    for pace, how in ((PACE, f"{PACE} events a second"), (None, "as fast as they can")):
        found = replay(READERS, EVENTS, pace)
        line(f"{how}: written and read", f"{found.rate:.0f}/s", f"{found.connections} connections")
        same = f"{found.identical} of {found.readers}"
        line("    ended with 1 to N, the same", same, f"all, N = {found.events}")
        late = f"{found.late_ms[1]:.0f} ms"
        line("    notification to reader, 99%", late, f"half of them within {found.late_ms[0]:.0f} ms")


def show_overhead(turns: int, rounds: int) -> None:
    print("(h) events and telemetry against neither, 64 at once: CPU of worker and Redis a turn, zero latency")
    cpu = overhead("quick", turns // 2, 64, 4 * rounds, 0.0).cpu_ms
    between = f"half of the rounds between {cpu.least:.1f} and {cpu.most:.1f}"
    line("with, without", f"{cpu.on:.1f}, {cpu.off:.1f} ms", "")
    line("cost", f"{cpu.on - cpu.off:.1f} ms", f"at most {EVENTS_MS:g} ms; {between}")
    print("    turns per second, 1.0 s a model call")
    rate = overhead("quick", turns, 64, 2 * rounds, 1.0).rate
    between = f"half of the rounds between {-rate.most / rate.off:.1%} and {-rate.least / rate.off:.1%}"
    line("with, without", f"{rate.on:.1f}, {rate.off:.1f}/s", "")
    line("loss", f"{1 - rate.on / rate.off:.1%}", f"none that can be measured; {between}")


def show_tokens() -> None:
    print(f"(i) the whole universe, {CANDIDATES} candidates, {SCREENS} times in a row on one desk, by the rulebook")
    found = repeated(SCREENS, CANDIDATES)
    for number, one in enumerate(found, start=1):
        by_mode = ", ".join(f"{mode} {tokens:,}" for mode, tokens in sorted(one.modes.items()))
        line(f"screen {number}, {one.turns} turns", f"{one.total:,}", f"tokens; {by_mode}")
    line("the last over the first", f"{found[-1].total / found[0].total:.2f}", "at most 1.15")


def show_commands(rounds: int) -> None:
    print("(j) user CPU of a command")
    for name, seconds, bound in command_cpu(rounds):
        line(name, f"{seconds:.2f} s", f"at most {bound:g} s")


def show(found: Throughput, kind: str, bound: float, least: float | None) -> None:
    line(f"{kind}, bare client", f"{found.bare:.1f}/s", "")
    line(f"{kind}, through desk.report", f"{found.queued:.1f}/s", f"at least {least:.0f}" if least else "")
    line(f"{kind}, ratio", f"{found.ratio:.2f}", f"at least {bound}")
    line(f"{kind}, CPU of the worker a turn", f"{found.cpu.worker:.1f} ms", f"at most {WORKER_MS:g} ms")
    line("    of its app-servers", f"{found.cpu.app_servers:.1f} ms", "")
    line("    of Redis", f"{found.cpu.redis:.2f} ms", "")


def line(name: str, figure: str, bound: str) -> None:
    print(f"    {name:<42}{figure:>12}    {bound}", flush=True)


if __name__ == "__main__":
    main()
