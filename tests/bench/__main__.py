"""`make bench`: figures of one run of this machine, each with its bound and whether it is met."""

from __future__ import annotations

import argparse
import os

from chordesk.models.settings.sources import load_settings
from chordesk.tasks.worker import logs
from tests.bench.analysis import analysis_times
from tests.bench.charts import chart_cost
from tests.bench.commands import command_cpu
from tests.bench.episode import episode_times
from tests.bench.feed.replay import replay
from tests.bench.graphs import TURNS as GRAPH_TURNS
from tests.bench.graphs import bridge_cost, graph_times
from tests.bench.page.cost import page_cost
from tests.bench.page.lists import EVENTS_A_RUN, RUNS, list_times
from tests.bench.screen import ScreenTimes, screen_times
from tests.bench.sheet import Sheet
from tests.bench.tokens.beside import trading_agents_tokens
from tests.bench.tokens.calls import Tokens, total
from tests.bench.tokens.lengths import LONG, SHORT
from tests.bench.tokens.screen import ScreenTokens, screen_tokens
from tests.bench.turns.library import library_cost
from tests.bench.turns.overhead import overhead
from tests.bench.turns.repeat import repeated
from tests.bench.turns.scaling import TURNS, crowd, scaling
from tests.bench.turns.throughput import Throughput, throughput
from tests.bench.walk import walk_paces
from tests.toy import checkout

PARTS = (
    "throughput",
    "screen",
    "scaling",
    "crowd",
    "replay",
    "overhead",
    "tokens",
    "verdict",
    "commands",
    "charts",
    "library",
    "analysis",
    "episode",
    "walk",
    "graphs",
    "page",
)
READERS, EVENTS, PACE = 200, 5_000, 500
# CPU milliseconds a turn, on a machine where an ephemeral turn takes an app-server so many. Another one is slower or
# faster than that by what its app-server takes, and so are its bounds.
WORKER_MS, EVENTS_MS, APP_SERVER_MS = 6.0, 3.0, 12.5
TURNS_A_SECOND = 100.0  # there
SCREENS, CANDIDATES = 5, 20
AT_ONCE = 64
GRAPHS = 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=60, help="of the walk")
    parser.add_argument("--directly", type=int, default=5, help="graphs that are called one after another")
    parser.add_argument("part", nargs="?", choices=PARTS, help="one part alone")
    given = parser.parse_args()
    logs.configure(load_settings({"DESK_LOG_LEVEL": "WARNING"}))
    sheet = Sheet()
    parts = {
        "throughput": lambda: show_throughput(sheet, given.turns, given.rounds),
        "screen": lambda: show_screen(sheet),
        "scaling": lambda: show_scaling(sheet),
        "crowd": lambda: show_crowd(sheet),
        "replay": lambda: show_replay(sheet),
        "overhead": lambda: show_overhead(sheet, given.turns, given.rounds),
        "tokens": lambda: show_tokens(sheet),
        "verdict": lambda: show_verdict(sheet),
        "commands": lambda: show_commands(sheet, given.rounds),
        "charts": lambda: show_charts(sheet, given.rounds),
        "library": lambda: show_library(sheet, given.turns, given.rounds),
        "analysis": lambda: show_analysis(sheet),
        "walk": lambda: show_walk(sheet, given.sessions),
        "episode": lambda: show_episode(sheet),
        "graphs": lambda: show_graphs(sheet, given.turns, given.rounds, given.directly),
        "page": lambda: show_page(sheet),
    }
    for name in [given.part] if given.part else PARTS:
        parts[name]()
    sheet.close()


def show_throughput(sheet: Sheet, turns: int, rounds: int) -> None:
    sheet.head(f"(a) turns through the queue, {AT_ONCE} at once, one tool call and two model calls each, zero latency")
    ephemeral = throughput("quick", turns, AT_ONCE, rounds)
    pace = ephemeral.cpu.app_servers / APP_SERVER_MS
    sheet.line("CPU time here", f"{pace:.2f}", f"times that of a machine where an app-server takes {APP_SERVER_MS} ms")
    show_turns(sheet, ephemeral, "ephemeral", 0.7, pace, TURNS_A_SECOND)
    kept = throughput("risk", turns, AT_ONCE, rounds)
    show_turns(sheet, kept, "thread-keeping", 0.95, pace, None)
    sheet.head(f"(c) resident memory of the worker and its app-servers at {AT_ONCE} turns at once")
    sheet.most("the larger of the two kinds", max(ephemeral.peak_mb, kept.peak_mb), 700, " MiB", ".0f")


def show_turns(sheet: Sheet, found: Throughput, kind: str, ratio: float, pace: float, rate: float | None) -> None:
    sheet.line(f"{kind}, bare client", f"{found.bare:.1f}/s")
    if rate is None:
        sheet.line(f"{kind}, through desk.report", f"{found.queued:.1f}/s")
    else:
        sheet.least(f"{kind}, through desk.report", found.queued, rate / pace, "/s", note=f"{rate:g} / {pace:.2f}")
    sheet.least(f"{kind}, of the bare client's rate", found.ratio, ratio, form=".2f")
    cpu = found.cpu
    sheet.most(f"{kind}, CPU a turn: worker", cpu.worker, WORKER_MS * pace, " ms", note=f"{WORKER_MS:g} x {pace:.2f}")
    sheet.line("    app-servers", f"{cpu.app_servers:.1f} ms")
    sheet.line("    Redis", f"{cpu.redis:.2f} ms")


def show_screen(sheet: Sheet) -> None:
    show_one_screen(sheet, screen_times(1.0, 20), "")
    show_one_screen(sheet, screen_times(1.0, 20, speculate=True), ", DESK_SPECULATE=on")


def show_one_screen(sheet: Sheet, found: ScreenTimes, how: str) -> None:
    longest = f"{found.most_calls} model calls in the longest turn, at most 3"
    sheet.head(f"(b) the whole universe, {found.candidates} candidates, {found.turns} turns, 1.0 s a model call{how}")
    sheet.line("wall", f"{found.wall:.1f} s")
    sheet.line("critical path", f"{found.critical_path:.1f} s", f"{found.longest_chain} calls; {longest}")
    sheet.line("model-seconds / slots", f"{found.slot_floor:.1f} s")
    sheet.most("wall over the longer of the two", found.ratio, 1.2, form=".2f")
    sheet.head("(d) after the run was opened")
    sheet.line("first report", f"{found.first_report:.1f} s")
    sheet.line("first verdict", f"{found.first_verdict:.1f} s")


def show_scaling(sheet: Sheet) -> None:
    found = scaling(1.0, 20)
    sheet.head(f"(e) the same screen on one worker process and on two, 1.0 s a model call, {TURNS} turns an app-server")
    sheet.line("one", f"{found.one:.1f} s")
    sheet.line("two", f"{found.two:.1f} s")
    sheet.least("faster by", found.faster, 1.7, form=".2f")


def show_crowd(sheet: Sheet) -> None:
    found = crowd(50, 5)
    sheet.head(f"(f) {found.runs} research runs of 5 symbols queued at once, zero latency")
    sheet.least("ended as done", found.ended, found.runs, form="d")
    sheet.line("reports, verdicts", f"{found.reports}, {found.verdicts}")
    sheet.line("wall", f"{found.seconds:.1f} s", f"{found.seconds / max(found.reports, 1) * 1000:.1f} ms a report")
    sheet.line("CPU of worker and ops a report", f"{found.cpu_ms:.1f} ms", "without their app-servers")


def show_replay(sheet: Sheet) -> None:
    sheet.head(f"(g) {READERS} readers that come and go at random while two processes write {EVENTS} events of one run")
    for pace, how in ((PACE, f"{PACE} events a second"), (None, "as fast as they can")):
        found = replay(READERS, EVENTS, pace)
        sheet.line(f"{how}: written and read", f"{found.rate:.0f}/s", f"{found.connections} connections")
        sheet.least(f"    ended with 1 to {found.events}, the same", found.identical, found.readers, form="d")
        late = f"half of them within {found.late_ms[0]:.0f} ms"
        sheet.line("    notification to reader, 99%", f"{found.late_ms[1]:.0f} ms", late)


def show_overhead(sheet: Sheet, turns: int, rounds: int) -> None:
    sheet.head(f"(h) events and telemetry against neither, {AT_ONCE} at once: CPU of worker and Redis, zero latency")
    found = overhead("quick", turns // 2, AT_ONCE, 4 * rounds, 0.0)
    cpu, pace = found.cpu_ms, found.app_server_ms / APP_SERVER_MS
    between = f"{EVENTS_MS:g} x {pace:.2f}; half of the rounds between {cpu.least:.1f} and {cpu.most:.1f}"
    sheet.line("a turn with, without", f"{cpu.on:.1f}, {cpu.off:.1f} ms")
    sheet.most("cost a turn", cpu.on - cpu.off, EVENTS_MS * pace, " ms", note=between)
    sheet.head("    turns per second, 1.0 s a model call")
    rate = overhead("quick", turns, AT_ONCE, 2 * rounds, 1.0).rate
    between = f"half of the rounds between {-rate.most / rate.off:.1%} and {-rate.least / rate.off:.1%}"
    sheet.line("with, without", f"{rate.on:.1f}, {rate.off:.1f}/s")
    sheet.line("loss", f"{1 - rate.on / rate.off:.1%}", f"none that can be measured; {between}")


def show_tokens(sheet: Sheet) -> None:
    sheet.head(f"(i) one screen {SCREENS} times in a row on one desk, {CANDIDATES} candidates each, by the rulebook")
    found = repeated(SCREENS, CANDIDATES)
    for number, one in enumerate(found, start=1):
        by_mode = ", ".join(f"{mode} {tokens:,}" for mode, tokens in sorted(one.modes.items()))
        sheet.line(f"screen {number}, {one.turns} turns", f"{one.total:,}", f"tokens; {by_mode}")
    sheet.most("the last over the first", found[-1].total / found[0].total, 1.15, form=".2f")


def show_verdict(sheet: Sheet) -> None:
    sheet.head(f"(r) what the model reads for a screen of {CANDIDATES}, in tokens of cl100k_base")
    found = screen_tokens(CANDIDATES, together=False)
    for role in sorted(found.roles):
        show_read(sheet, f"{role}, {found.roles[role].calls} calls", found.roles[role])
    whole, verdicts = total(found.roles.values()), len(found.symbols)
    show_read(sheet, f"all, {whole.calls} calls", whole)
    show_share(sheet, whole)
    show_read(sheet, "a verdict, with its screening and decision", whole, verdicts)
    show_read(sheet, "its research alone", found.research, verdicts)
    show_beside(sheet, screen_tokens(CANDIDATES, together=True))


def show_beside(sheet: Sheet, found: ScreenTokens) -> None:
    """Show a screen whose model asks for several answers in one message, beside TradingAgents with such a model."""
    sheet.head("    where the model asks in one message for all that it can ask for at once")
    whole, verdicts = total(found.roles.values()), len(found.symbols)
    show_share(sheet, whole)
    show_read(sheet, "a verdict, with its screening and decision", whole, verdicts)
    show_read(sheet, "its research alone", found.research, verdicts)
    if (why := checkout.lacking()) is not None or checkout.CHECKOUT is None:
        sheet.line("TradingAgents", "not measured", str(why))
        return
    for lengths in (SHORT, LONG):
        other = trading_agents_tokens(checkout.CHECKOUT, found.symbols, lengths)
        texts = f"texts of {lengths.text:,} characters" if lengths.text else "one sentence a text"
        show_read(sheet, f"TradingAgents, {texts}", other, verdicts)
    sheet.most("research of a verdict over that", found.research.read / other.read, 0.5, form=".2f")


def show_read(sheet: Sheet, name: str, tokens: Tokens, among: int = 1) -> None:
    shares = f"{tokens.share(tokens.seen):.0%} seen before, {tokens.share(tokens.kept):.0%} by OpenAI's rule"
    rest = f"tool answers {tokens.share(tokens.answers):.0%}; written {tokens.written / among:,.0f}"
    sheet.line(name, f"{tokens.read / among:,.0f}", f"{shares}, {rest}")


def show_share(sheet: Sheet, tokens: Tokens) -> None:
    sheet.least("of the read ones, with a prefix seen before", 100 * tokens.share(tokens.seen), 60, " %", form=".0f")


def show_commands(sheet: Sheet, rounds: int) -> None:
    sheet.head("(j) user CPU of a command")
    for name, seconds, bound in command_cpu(rounds):
        sheet.most(name, seconds, bound, " s", ".2f")


def show_charts(sheet: Sheet, rounds: int) -> None:
    found = chart_cost(rounds)
    sheet.head(f"(k) charts of {found.symbols} names, 126 sessions, from 4 threads of one process")
    sheet.least("pictures", found.rate, 20, "/s", ".0f")
    sheet.line("CPU of a picture", f"{found.picture_ms:.1f} ms")
    sheet.line("CPU of a study", f"{found.study_ms:.2f} ms", "about 1")


def show_library(sheet: Sheet, turns: int, rounds: int) -> None:
    sheet.head("(l) a LiteLLM turn and its calls by the bare library, 64 at once, one tool call and two model calls")
    found = library_cost(turns, 2 * rounds)
    sheet.line("CPU a turn: runtime, library", f"{found.runtime_ms:.1f}, {found.bare_ms:.1f} ms")
    sheet.line("the library without streams", f"{found.whole_ms:.1f} ms")
    sheet.most("ratio", found.ratio, 1.3, form=".2f")
    sheet.line("import of the library", f"{found.loaded_ms / 1000:.1f} s CPU", f"{found.loaded_mb:.0f} MiB")


def show_analysis(sheet: Sheet) -> None:
    found = analysis_times(1.0, CANDIDATES)
    sheet.head(f"(m) an analysis of {found.symbols} symbols, {found.turns} turns, 1.0 s a model call")
    sheet.line("wall", f"{found.wall:.1f} s")
    sheet.line("critical path", f"{found.critical_path:.1f} s", f"{found.longest_chain} calls in sequence")
    sheet.most("wall over it", found.ratio, 1.2, form=".2f")
    sheet.line("CPU of worker and app-servers", f"{found.cpu:.1f} s", f"{found.calls} model calls, charts and chains")


def show_walk(sheet: Sheet, sessions: int) -> None:
    for number, found in enumerate(walk_paces(sessions)):
        if number == 0:
            sheet.head(f"(o) a walk over {sessions} sessions of the S&P 500, {found.one.turns} turns of the rulebook")
        for name, walk in (("one worker", found.one), ("two", found.two)):
            cpu = ", ".join(f"{one} {seconds:.2f}" for one, seconds in found.cpu_a_session(walk).items())
            sheet.line(
                f"{found.desk}, {name}", f"{found.a_minute(walk):.1f}", f"sessions a minute; {os.cpu_count()} CPU"
            )
            sheet.line("    CPU a session", f"{sum(walk.cpu.values()) / sessions:.2f} s", cpu)
        sheet.line("attainable on two processors", f"{found.one.attainable:.2f}", "by the CPU time of the processes")
        if number == 0:
            sheet.least("two over one", found.faster, 1.7, form=".2f", note="with two processors to spare for them")
        else:
            sheet.line("two over one", f"{found.faster:.2f}", "its ops and trade worker take a part of both")


def show_episode(sheet: Sheet) -> None:
    found = episode_times(1.0)
    what = f"{found.voices} voices, 2 rounds, {found.questions} questions, {found.turns} turns"
    sheet.head(f"(n) an episode: {what}, 1.0 s a model call")
    sheet.line("wall", f"{found.wall:.2f} s", ", ".join(f"{name} {at:.2f}" for name, at in found.stages.items()))
    path = f"the slowest tool, {found.tools:.2f} s, then {found.calls} calls in sequence"
    sheet.line("critical path", f"{found.critical_path:.2f} s", path)
    sheet.most("wall over it", found.ratio, 1.2, form=".2f")


def show_graphs(sheet: Sheet, turns: int, rounds: int, directly: int) -> None:
    sheet.head(f"(p) {GRAPHS} graphs of 16 model calls in sequence, 1.0 s a model call")
    found = graph_times(1.0, GRAPHS, directly)
    each = f"{directly} of them took {sum(found.direct):.1f} s, by ChatCodex without a desk"
    sheet.line("one after another", f"{found.in_sequence:.1f} s", each)
    sheet.line("through the desk", f"{found.desk:.1f} s")
    sheet.least("faster by", found.faster, 15, form=".1f")
    sheet.line(f"on one worker of {GRAPH_TURNS} turns", f"{found.one:.1f} s")
    sheet.line("on two", f"{found.two:.1f} s")
    sheet.least("faster by", found.by_two, 1.8, form=".2f")
    cost = bridge_cost(turns, 2 * rounds)
    sheet.head(
        f"    CPU of a graph's call and of a plain turn, one model call each, {cost.calls} a round, zero latency"
    )
    sheet.line("worker: call, turn", f"{cost.call.worker:.1f}, {cost.turn.worker:.1f} ms")
    sheet.most("more", cost.more, 3, " ms", ".1f")
    sheet.line("app-servers: call, turn", f"{cost.call.app_servers:.1f}, {cost.turn.app_servers:.1f} ms")
    sheet.line("worker's memory before its first graph, after", f"{cost.loaded_mb[0]:.0f}, {cost.loaded_mb[1]:.0f} MiB")


def show_page(sheet: Sheet) -> None:
    found = page_cost(EVENTS)
    sheet.head(
        f"(q) the view of a run in a browser: {found.events:,} events, {found.steps} steps, {CANDIDATES} candidates"
    )
    sheet.most("until the first counts are shown", found.first, 0.6, " s", ".2f")
    sheet.line("until all events are listed", f"{found.shown:.2f} s")
    sheet.most("CPU of the browser's main thread", found.cpu, 0.5, " s", ".2f")
    sheet.most("elements of the document", found.elements, 1500, form=".0f")
    sheet.most("CPU, 200 events/s for 10 s", found.live_cpu, 2.5, " s", ".2f")
    sheet.most("elements then", found.live_elements, 1500, form=".0f")
    sheet.head(f"(q) until a view shows its content, with {RUNS} runs and {RUNS * EVENTS_A_RUN:,} events")
    for way, seconds in list_times().items():
        sheet.most(way, seconds, 1.0, " s", ".2f")


if __name__ == "__main__":
    main()
