"""`make bench`: figures of one run of this machine, each with its bound and whether it is met."""

from __future__ import annotations

import argparse
import os
from statistics import median

from chordesk.models.settings.sources import load_settings
from chordesk.tasks.worker import log_format
from tests.ordeal.aged import aged_times
from tests.ordeal.beside import trading_agents_tokens
from tests.ordeal.feed import replay
from tests.ordeal.graphs import TURNS as GRAPH_TURNS
from tests.ordeal.graphs import graph_times
from tests.ordeal.growth import CYCLE, FIRST, growth
from tests.ordeal.looks import look_times
from tests.ordeal.played import played_paces
from tests.ordeal.reuse import look_cost
from tests.ordeal.sheet import Sheet
from tests.ordeal.timing import TURNS, ScreenTimes, analysis_times, scaling, screen_times, walk_paces
from tests.ordeal.tokens import LONG, SHORT, ScreenTokens, Tokens, screen_tokens, total
from tests.ordeal.turns import Throughput, throughput
from tests.toy import checkout

AGE = "age"  # takes half an hour, and runs only where it is named
PARTS = (
    "throughput",
    "screen",
    "scaling",
    "replay",
    "verdict",
    "analysis",
    "walk",
    "played",
    "graphs",
    "looks",
    "memory",
    "reuse",
)
READERS, EVENTS, PACE = 200, 5_000, 500
# CPU milliseconds a turn, on a machine where an ephemeral turn takes an app-server so many. Another one is slower or
# faster than that by what its app-server takes, and so are its bounds.
WORKER_MS, APP_SERVER_MS = 6.0, 12.5
TURNS_A_SECOND = 100.0  # there
CANDIDATES = 20
# Of a verdict. A fifth of what TradingAgents 0.3.0 reads for a ticker, 59,316, is what one may cost at a provider that
# takes a tenth for tokens that it has seen.
RESEARCH_TOKENS, VERDICT_TOKENS, PAID_TOKENS = 17_000, 36_000, 59_316 / 5
AT_ONCE = 64
LOOK_SHARE = 0.03  # of a screen's processor time, that looking at earlier reports may add where it was in vain
GRAPHS = 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=60, help="of the walk")
    parser.add_argument("--screens", type=int, default=1000, help="that the aged home has done")
    parser.add_argument("--in-a-row", type=int, default=500, help="screens of the worker whose memory is measured")
    parser.add_argument("--pairs", type=int, default=12, help="of screens with and without DESK_REUSE")
    parser.add_argument("--directly", type=int, default=5, help="graphs that are called one after another")
    parser.add_argument("--pages", action="store_true", help="keep the figures that pages show in docs/figures")
    parser.add_argument("part", nargs="?", choices=(*PARTS, AGE), help="one part alone")
    given = parser.parse_args()
    log_format.configure(load_settings({"DESK_LOG_LEVEL": "WARNING"}))
    sheet = Sheet(pages=given.pages)
    parts = {
        "throughput": lambda: show_throughput(sheet, given.turns, given.rounds),
        "screen": lambda: show_screen(sheet),
        "scaling": lambda: show_scaling(sheet),
        "replay": lambda: show_replay(sheet),
        "verdict": lambda: show_verdict(sheet),
        "analysis": lambda: show_analysis(sheet),
        "walk": lambda: show_walk(sheet, given.sessions),
        "played": lambda: show_played(sheet, given.sessions),
        "graphs": lambda: show_graphs(sheet, given.directly),
        "looks": lambda: show_looks(sheet),
        "memory": lambda: show_memory(sheet, given.in_a_row),
        "reuse": lambda: show_reuse(sheet, given.pairs),
        AGE: lambda: show_age(sheet, given.screens),
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


def show_replay(sheet: Sheet) -> None:
    sheet.head(f"(g) {READERS} readers that come and go at random while two processes write {EVENTS} events of one run")
    for pace, how in ((PACE, f"{PACE} events a second"), (None, "as fast as they can")):
        found = replay(READERS, EVENTS, pace)
        sheet.line(f"{how}: written and read", f"{found.rate:.0f}/s", f"{found.connections} connections")
        sheet.least(f"    ended with 1 to {found.events}, the same", found.identical, found.readers, form="d")
        late = f"half of them within {found.late_ms[0]:.0f} ms"
        sheet.line("    notification to reader, 99%", f"{found.late_ms[1]:.0f} ms", late)


def show_verdict(sheet: Sheet) -> None:
    sheet.head(f"(r) what the model reads for a screen of {CANDIDATES}, in tokens of cl100k_base")
    found = screen_tokens(CANDIDATES, together=False)
    for role in sorted(found.roles):
        show_read(sheet, f"{role}, {found.roles[role].calls} calls", found.roles[role])
    sheet.keep("verdict", ["role", "calls", "read", "seen before", "tool answers", "written"], verdict_rows(found))
    whole, verdicts = total(found.roles.values()), len(found.symbols)
    show_read(sheet, f"all, {whole.calls} calls", whole)
    show_share(sheet, whole)
    show_read(sheet, "a verdict, with its screening and decision", whole, verdicts)
    show_read(sheet, "its research alone", found.research, verdicts)
    sheet.most("a verdict: tokens of its research", found.research.read / verdicts, RESEARCH_TOKENS, form=",.0f")
    sheet.most("    with its screening and decision", whole.read / verdicts, VERDICT_TOKENS, form=",.0f")
    sheet.most("    where one seen before counts a tenth", whole.paid / verdicts, PAID_TOKENS, form=",.0f")
    show_beside(sheet, screen_tokens(CANDIDATES, together=True))


def verdict_rows(found: ScreenTokens) -> list[list[str]]:
    """Return the rows of the page about a verdict's tokens: its roles, the whole, a verdict and its bounds."""
    roles, verdicts = found.roles, len(found.symbols)
    screeners = total(tokens for role, tokens in roles.items() if role.startswith("screener"))
    whole = total(roles.values())
    rows = [
        token_row("four research roles", found.research),
        token_row("four screeners", screeners),
        token_row("`trader`", roles["trader"]),
        token_row("all", whole),
        token_row(f"**a verdict**, of {verdicts}", whole, verdicts),
        token_row(f"its research alone; at most {RESEARCH_TOKENS:,}", found.research, verdicts),
    ]
    paid = f"a verdict, where a token seen before counts a tenth; at most {PAID_TOKENS:,.0f}"
    return [*rows, [paid, "", f"{whole.paid / verdicts:,.0f}", "", "", ""]]


def token_row(name: str, tokens: Tokens, among: int = 1) -> list[str]:
    shares = [f"{tokens.share(part):.0%}".replace("%", " %") for part in (tokens.seen, tokens.answers)]
    return [
        name,
        f"{tokens.calls / among:.0f}",
        f"{tokens.read / among:,.0f}",
        *shares,
        f"{tokens.written / among:,.0f}",
    ]


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
    rows = [token_row("research of a verdict", found.research, verdicts)]
    rows.append(token_row("with its part of the screen and the decision", whole, verdicts))
    for lengths in (SHORT, LONG):
        other = trading_agents_tokens(checkout.CHECKOUT, found.symbols, lengths)
        texts = f"texts of {lengths.text:,} characters" if lengths.text else "one sentence a text"
        show_read(sheet, f"TradingAgents, {texts}", other, verdicts)
        rows.append(token_row(f"TradingAgents 0.3.0, {texts}", other, verdicts))
    sheet.keep("tradingagents", ["a ticker", "calls", "read", "seen before", "tool answers", "written"], rows)
    sheet.most("research of a verdict over that", found.research.read / other.read, 0.5, form=".2f")


def show_read(sheet: Sheet, name: str, tokens: Tokens, among: int = 1) -> None:
    shares = f"{tokens.share(tokens.seen):.0%} seen before, {tokens.share(tokens.kept):.0%} by OpenAI's rule"
    rest = f"tool answers {tokens.share(tokens.answers):.0%}; written {tokens.written / among:,.0f}"
    sheet.line(name, f"{tokens.read / among:,.0f}", f"{shares}, {rest}")


def show_share(sheet: Sheet, tokens: Tokens) -> None:
    sheet.line("of the read ones, with a prefix seen before", f"{tokens.share(tokens.seen):.0%}")


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
            sheet.head(f"(o) a backtest of {sessions} sessions of the S&P 500, {found.one.turns} turns of the rulebook")
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


def show_played(sheet: Sheet, sessions: int) -> None:
    sheet.head("(s) backtests that their command plays, CPU seconds on one processor")
    for found in played_paces(sessions):
        name = f"{found.names} names, {found.sessions} sessions"
        sheet.line(name, f"{found.a_minute:.0f}", "sessions a minute of a processor of its own")
        each = f"{found.desk / found.sessions:.3f} s a session; the loop {found.pandas / found.sessions:.4f} s"
        sheet.line("    over a bare pandas loop", f"{found.desk / found.pandas:.1f}", each)


def show_graphs(sheet: Sheet, directly: int) -> None:
    sheet.head(f"(p) {GRAPHS} graphs of 16 model calls in sequence, 1.0 s a model call")
    found = graph_times(1.0, GRAPHS, directly)
    each = f"{directly} of them took {sum(found.direct):.1f} s, by ChatCodex without a desk"
    sheet.line("one after another", f"{found.in_sequence:.1f} s", each)
    sheet.line("through the desk", f"{found.desk:.1f} s")
    sheet.least("faster by", found.faster, 15, form=".1f")
    sheet.line(f"on one worker of {GRAPH_TURNS} turns", f"{found.one:.1f} s")
    sheet.line("on two", f"{found.two:.1f} s")
    sheet.least("faster by", found.by_two, 1.8, form=".2f")


def show_looks(sheet: Sheet) -> None:
    sheet.head("(s) a command that only looks: by itself, and answered by a running desk")
    looks = look_times()
    for found in looks:
        sheet.line(f"{found.name}, by itself", f"{found.itself.cpu:.2f} s CPU", f"wall {found.itself.wall:.2f} s")
        sheet.most(f"{found.name}, answered: wall", found.answered.wall, 0.6, " s", form=".2f")
        note = f"{found.answered.desk:.2f} of them the desk's; {found.cpu / found.itself.cpu:.2f} of by itself"
        sheet.most("    CPU, of both", found.cpu, 0.4, " s", form=".2f", note=note)
    least = max(found.cpu / found.least.cpu for found in looks)
    sheet.line("    the most, over loading typer and rich", f"{least:.2f}")


def show_memory(sheet: Sheet, screens: int) -> None:
    found = growth(screens)
    sheet.head(f"(t) resident memory of one research worker over {screens} screens of 4 names, one after the other")
    sheet.line("after the first; the most", f"{found.megabytes[0]:.0f} MiB", f"{max(found.megabytes):.0f}")
    first, later = found.cycles[0], max(found.cycles[1:])
    note = f"{first:.0f} in the first {CYCLE} of them"
    sheet.most(f"after {FIRST}: the most of {CYCLE} screens", later, 1.05 * first, " MiB", ".0f", note)


def show_reuse(sheet: Sheet, pairs: int) -> None:
    found = look_cost(CANDIDATES, pairs)
    sheet.head(f"(u) CPU of a screen of {found.turns} turns of rules whose earlier reports all differ, {pairs} pairs")
    for name, spent in zip(("DESK_REUSE=off", "DESK_REUSE=near"), zip(*found.pairs, strict=True), strict=True):
        each = f"{1000 * median(spent) / found.turns:.0f} ms a turn, app-servers too"
        sheet.line(f"{name}, the middle one", f"{median(spent):.2f} s", each)
    low, high = found.range
    sheet.most("more", 100 * found.more, 100 * LOOK_SHARE, " %", note=f"half of the pairs {low:.1%} to {high:.1%}")


def show_age(sheet: Sheet, screens: int) -> None:
    found = aged_times(screens)
    sheet.head(f"(q) CPU seconds on a home that has done a few runs, and on one that has done {screens:,} screens")
    for name, after in found.aged.items():
        before = found.fresh[name]
        limit = max(1.3 * before, before + 0.3)  # below that the clock of the processor is too coarse
        sheet.most(name, after, limit, " s", ".2f", f"fresh {before:.2f}")
    before, after = found.memory
    sheet.most("memory of the research worker", after, 1.2 * before, " MiB", ".0f", f"fresh {before:.0f}")
    sheet.line("database, a screen", f"{found.bytes / 2**20:.2f} MiB")


if __name__ == "__main__":
    main()
