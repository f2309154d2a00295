"""`make faults`: kills what a desk is made of and prints what was lost, doubled, and the time of each takeover.

    python -m tests.faults [--short] [--only NAME] [--seeds N] [--lanes N] [--no-claim] [--resend]

Exit code 1 when anything was lost, doubled or wrong. FAULT_LOGS=FOLDER keeps every process's log.
With --no-claim every message takes its step, also a held one, and with --resend the trade worker sends again what it
should ask about: proof that the suite can fail.
"""

from __future__ import annotations

import argparse
import dataclasses

from tests.faults.orders.desk import ORDER_CREW
from tests.faults.scenario import order_figures, table
from tests.faults.suite import LANES, LONG, SCENARIOS, SHORT, alone, run, with_resend, without_claim

TAKEOVER_SECONDS = 15.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
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
