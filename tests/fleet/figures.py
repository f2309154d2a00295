"""The figures of a rehearsal, each with its bound and whether it is met."""

from __future__ import annotations

from tests.bench.sheet import Sheet
from tests.fleet.costs import load
from tests.fleet.crew import GRACE_SECONDS, RESEARCH
from tests.fleet.machine.leftovers import Leftovers, shown
from tests.fleet.plan import LATENCY, TURNS
from tests.fleet.rehearsal import Rehearsal

FASTER = {2: 1.9, 4: 3.6}  # times the turns a second of one worker
SHOWN = 12  # findings of a kind


def show(sheet: Sheet, rehearsal: Rehearsal) -> None:
    """Print everything that it came to, after the fleet has gone."""
    _show_decisions(sheet, rehearsal)
    if rehearsal.outcome.counted:
        _show_work(sheet, rehearsal)
        _show_faults(sheet, rehearsal)
    if rehearsal.outcome.steady:
        _show_speed(sheet, rehearsal)
    _show_costs(sheet, rehearsal)


def _show_decisions(sheet: Sheet, rehearsal: Rehearsal) -> None:
    rule, controller = rehearsal.plan.rule, rehearsal.controller
    sheet.head(
        f"scaling: {rule.least} to {rule.most} workers, {rule.turns} steps each, a look every {rule.poll:g} s, "
        f"down after {rule.settle:g} s"
    )
    for decision in controller.changes():
        minutes, seconds = divmod(int(decision.at), 60)
        sheet.line(f"{minutes:3d}:{seconds:02d}", f"{decision.before} -> {decision.workers}", decision.reason)
    failed = sum(decision.steps is None for decision in controller.decisions)
    sheet.line("looks", str(len(controller.decisions)), f"{failed} of them failed, and changed nothing")
    sheet.least("most workers ready at once", controller.most_ready, rule.most, form="d")
    sheet.most("workers at the end", rehearsal.outcome.workers_left, rule.least, form="d")
    starts = rehearsal.crew.starts
    sheet.line("a process answers after", f"{max(starts, default=0.0):.1f} s", f"the slowest of {len(starts)} starts")


def _show_work(sheet: Sheet, rehearsal: Rehearsal) -> None:
    outcome, found = rehearsal.outcome, rehearsal.outcome.findings
    sheet.head("work: what the runs left behind, by the database and by the model's record of its calls")
    kinds = f"{len(rehearsal.screens)} screens, {len(rehearsal.research)} of research"
    sheet.line("runs ended", f"{outcome.runs - outcome.unfinished}", kinds)
    sheet.most("runs not ended", outcome.unfinished, 0, form="d")
    sheet.line("turns", str(outcome.turns), f"{outcome.scraped_turns:g} by Prometheus, without a killed one's last")
    sheet.most("steps lost", len(found.lost), 0, form="d")
    sheet.most("done twice", len(found.doubled), 0, form="d")
    sheet.most("other findings", len(found.wrong), 0, form="d")
    for kind, items in (("lost", found.lost), ("twice", found.doubled), ("other", found.wrong)):
        for item in items[:SHOWN]:
            print(f"      {kind}: {item}", flush=True)
    missing = sorted(set(rehearsal.crew.names) - outcome.scraped)
    sheet.line("most steps due or in work", f"{outcome.demand:g}", "by the gauge that Prometheus scrapes of ops")
    sheet.most("processes that Prometheus missed", len(missing), 0, form="d", note=", ".join(missing))


def _show_faults(sheet: Sheet, rehearsal: Rehearsal) -> None:
    outcome, crew = rehearsal.outcome, rehearsal.crew
    sheet.head("faults: one worker killed, Redis and Postgres restarted, all while four workers were busy")
    note = f"until others had the killed worker's {outcome.held} steps, which queue behind what was due"
    sheet.line("takeover", f"{outcome.takeover:.1f} s", note)
    sheet.least("steps due or in work at each fault", min(outcome.busy, default=0), TURNS, form="d")
    for name, seconds in outcome.away.items():
        sheet.line(f"{name} was away", f"{seconds:.1f} s")
    for role, times in crew.ended.items():
        note = "the one that was killed" if (role, times) == (RESEARCH, 1) else "replaced each time"
        sheet.line(f"{role} ended without being asked", str(times), note)
    slowest = max((one.seconds for one in crew.drained), default=0.0)
    busy = max((one.held or 0 for one in crew.drained), default=0)
    note = f"the slowest of {len(crew.drained)}, with up to {busy} turns in work"
    sheet.most("time to drain", slowest, GRACE_SECONDS, " s", note=note)
    sheet.most("drains that did not exit 0", sum(one.code != 0 for one in crew.drained), 0, form="d")
    sheet.line("turns given back by drains", str(outcome.given_back), "they went on elsewhere, and cost no attempt")


def _show_speed(sheet: Sheet, rehearsal: Rehearsal) -> None:
    sheet.head(f"speed: {TURNS} turns at once a worker, two calls a turn of a model that takes {LATENCY:g} s each")
    one = rehearsal.outcome.steady[0].rate
    for found in rehearsal.outcome.steady:
        name, note = f"turns/s with {found.workers}", f"{found.turns} turns, {found.load}"
        sheet.line(name, f"{found.rate:.2f}", note)
        if found.left < found.workers * TURNS:
            sheet.least(f"queued at its end, {found.workers}", found.left, found.workers * TURNS, form="d")
        if found.workers in FASTER and one:
            sheet.least(f"faster with {found.workers}", found.rate / one, FASTER[found.workers], "x", ".2f")


def _show_costs(sheet: Sheet, rehearsal: Rehearsal) -> None:
    for found in rehearsal.outcome.steady:
        sheet.head(f"costs with {found.workers} workers at work, idle times and all")
        for name, figure in found.cost.lines("turns"):
            sheet.line(name, figure)
    if rehearsal.outcome.idle is not None:
        sheet.head("costs of an idle fleet with one worker")
        for name, figure in rehearsal.outcome.idle.lines("seconds"):
            sheet.line(name, figure)


def show_leftovers(sheet: Sheet, left: Leftovers) -> None:
    """Print what is left of the rehearsal, after ending it."""
    sheet.head(f"left behind ({load()})")
    for kind, found in (
        ("processes", left.end_processes()),
        ("ports that answer", left.listening()),
        ("folders", left.there()),
    ):
        sheet.most(kind, len(found), 0, form="d", note=shown(kind, found) if found else "")
