"""The alert rules by promtool: they are valid, each fires on its series and not on a healthy desk's; runbooks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.deploy.watching.prometheus import RULES, alerts, promtool, rules
from tests.stack import REPOSITORY

RUNBOOKS = REPOSITORY / "docs" / "runbooks.md"
LONG = "1h"
ROLES = ("research", "ops", "trade", "beat", "api", "notify")
# A desk that is well, for two hours, one value a minute.
HEALTHY: Mapping[str, str] = {
    **{f'up{{job="desk",instance="{role}"}}': "1x120" for role in ROLES},
    **{f'desk_ready{{job="desk",role="{role}"}}': "1x120" for role in ROLES},
    'desk_part_up{part="database",instance="ops"}': "1x120",
    'desk_part_up{part="redis",instance="ops"}': "1x120",
    **{f'desk_processes{{instance="ops",role="{role}",state="runs"}}': "1x120" for role in ROLES},
    **{f'desk_processes{{instance="ops",role="{role}",state="frozen"}}': "0x120" for role in ROLES},
    'desk_processes{instance="ops",role="beat",state="not wanted"}': "0x120",
    'desk_attempts_lost{instance="ops"}': "0x120",
    'desk_app_server_largest_bytes{instance="research",kind="kept"}': "300000000x120",
    'desk_limit{limit="app_server_bytes"}': "629145600x120",
    'desk_limit{limit="day_tokens"}': "30000000x120",
    'desk_limit{limit="drawdown"}': "0.15x120",
    'desk_limit{limit="daily_loss"}': "0.03x120",
    'desk_steps_due_age_seconds{queue="research"}': "20x120",
    'desk_sweep_age_seconds{instance="ops"}': "3x120",
    'desk_turns_total{instance="research",role="quick",outcome="completed"}': "0+10x120",
    'desk_turns_total{instance="research",role="quick",outcome="failed"}': "0+1x120",
    'desk_events_dropped_total{instance="research",queue="recorder"}': "0x120",
    "desk_models_parked": "0x120",
    "desk_day_tokens": "1000000x120",
    'desk_waiting_age_seconds{kind="order"}': "0x120",
    'desk_orders_open{state="unknown"}': "0x120",
    'desk_trading_state{account="paper",state="halted"}': "0x120",
    'desk_trading_state{account="paper",state="live"}': "1x120",
    'desk_drawdown_share{account="paper"}': "0.02x120",
    'desk_day_change_share{account="paper"}': "-0.01x120",
    'desk_part_up{part="database",instance="notify"}': "1x120",
    'desk_notifications_late_seconds{channel="phone"}': "0 5 35 0x117",
    'desk_notifications_given_up{channel="phone"}': "0x120",
}


class Fault(NamedTuple):
    """What of a healthy desk is otherwise; None takes a series away. alerts: how many fire for longer than the rule's
    wait; others: further rules that the same fault sets off."""

    changed: Mapping[str, str | None]
    alerts: int = 1
    others: tuple[str, ...] = ()


READY, AGE = 'desk_ready{{job="desk",role="{}"}}', 'desk_sweep_age_seconds{instance="ops"}'
LIFE = 'desk_processes{{instance="ops",role="{}",state="{}"}}'
DATABASE = 'desk_part_up{{part="database",instance="{}"}}'
FAULTS: Mapping[str, Fault] = {
    "DeskNoWorker": Fault({READY.format("research"): "0x120", READY.format("trade"): None}, alerts=2),
    "DeskNoBeat": Fault({LIFE.format("beat", "runs"): "0x120", LIFE.format("beat", "frozen"): "1x120"}),
    "DeskProcessIll": Fault(
        {LIFE.format("research", "frozen"): "1x120", LIFE.format("ops", "dead"): "1x120"}, alerts=2
    ),
    "DeskProcessAway": Fault({'up{job="desk",instance="api"}': "0x120"}),
    "DeskWorkerLost": Fault({'desk_attempts_lost{instance="ops"}': "3x120"}),
    "DeskAppServerMemory": Fault({'desk_app_server_largest_bytes{instance="research",kind="kept"}': "1000000000x120"}),
    "DeskRoomShort": Fault({'desk_room_short{instance="ops",what="space",where="home (/srv)"}': "1x120"}),
    "DeskNoRoom": Fault({'desk_room_short{instance="ops",what="memory",where=""}': "2x120"}),
    "DeskDatabaseAway": Fault({**{DATABASE.format(role): "0x120" for role in ("ops", "notify")}, AGE: None}, alerts=2),
    "DeskRedisAway": Fault({'desk_part_up{part="redis",instance="ops"}': "0x120"}),
    "DeskStepsDue": Fault({'desk_steps_due_age_seconds{queue="research"}': "0+60x120"}),
    "DeskSweepStale": Fault({AGE: "3+60x120"}),
    "DeskErrorRate": Fault({'desk_turns_total{instance="research",role="quick",outcome="failed"}': "0+5x120"}),
    "DeskEventsDropped": Fault({'desk_events_dropped_total{instance="research",queue="recorder"}': "0+1x120"}),
    "DeskModelParked": Fault({'desk_model_parked_seconds{model="gpt-5.5"}': "30x120"}),
    "DeskBudgetNear": Fault({"desk_day_tokens": "27000000x120"}),
    "DeskBudgetReached": Fault({"desk_day_tokens": "30000001x120"}),
    "DeskWaiting": Fault({'desk_waiting_age_seconds{kind="order"}': "0+60x120"}),
    "DeskOrderUnknown": Fault({'desk_orders_open{state="unknown"}': "1x120"}),
    "DeskHalted": Fault({'desk_trading_state{account="paper",state="halted"}': "1x120"}),
    "DeskDrawdown": Fault({'desk_drawdown_share{account="paper"}': "0.13x120"}),
    "DeskNoNotifier": Fault({READY.format("notify"): "1x20 0x100"}),
    "DeskNotificationsLate": Fault({'desk_notifications_late_seconds{channel="phone"}': "0+60x120"}),
    "DeskNotificationsGivenUp": Fault({'desk_notifications_given_up{channel="phone"}': "2x120"}),
    "DeskDayLoss": Fault({'desk_day_change_share{account="paper"}': "-0.028x120"}),
}


def unit_test(changed: Mapping[str, str | None], firing: Mapping[str, int]) -> dict[str, Any]:
    """A test of promtool: after an hour exactly these alerts fire, so many of each."""
    series = [{"series": name, "values": value} for name, value in {**HEALTHY, **changed}.items() if value is not None]
    samples = [{"labels": f'{{alertname="{name}"}}', "value": count} for name, count in firing.items()]
    query = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [{"expr": query, "eval_time": LONG, "exp_samples": samples}],
    }


def check(folder: Path, *tests: dict[str, Any]) -> str:
    """What promtool finds wrong with these tests; nothing if they hold."""
    path = folder / "tests.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": list(tests)}))
    done = promtool("test", "rules", path, folder=folder)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_rules_and_configurations_are_valid() -> None:
    done = promtool("check", "rules", RULES)
    assert done.returncode == 0, done.stderr
    for path in sorted((REPOSITORY / "deploy" / "prometheus").glob("*.yml")):
        done = promtool("check", "config", "--lint=all", "--lint-fatal", path)
        assert done.returncode == 0, f"{path.name}: {done.stdout}{done.stderr}"


def test_nothing_fires_on_a_desk_that_is_well(tmp_path: Path) -> None:
    assert check(tmp_path, unit_test({}, {})) == ""


def test_every_alert_has_a_fault_here() -> None:
    assert sorted(FAULTS) == alerts()


def test_each_alert_fires_on_its_fault_and_no_other_does(tmp_path: Path) -> None:
    wanted = {name: {name: fault.alerts, **dict.fromkeys(fault.others, 1)} for name, fault in FAULTS.items()}
    assert check(tmp_path, *(unit_test(fault.changed, wanted[name]) for name, fault in FAULTS.items())) == ""


def test_a_desk_that_never_swept_is_stale_and_one_that_is_gone_has_no_worker(tmp_path: Path) -> None:
    assert check(tmp_path, unit_test({AGE: None}, {"DeskSweepStale": 1})) == ""
    nothing = dict.fromkeys(HEALTHY)
    assert check(tmp_path, unit_test(nothing, {"DeskNoWorker": 3})) == ""


def test_a_beat_that_nobody_wants_is_no_alarm_and_one_that_others_stand_in_for_neither(tmp_path: Path) -> None:
    left_out = {
        READY.format("beat"): None, LIFE.format("beat", "runs"): None, LIFE.format("beat", "not wanted"): "1x120",
    }  # fmt: skip
    assert check(tmp_path, unit_test(left_out, {})) == ""
    lost = {LIFE.format("research", "unreachable"): "1x120", LIFE.format("beat", "unreachable"): "1x120"}
    assert check(tmp_path, unit_test(lost, {})) == "", "others of their roles run"
    alone = {**lost, LIFE.format("research", "runs"): "0x120"}
    assert check(tmp_path, unit_test(alone, {"DeskProcessIll": 1})) == ""


def test_each_alert_has_a_severity_and_a_runbook_with_three_answers() -> None:
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", RUNBOOKS.read_text(), re.MULTILINE | re.DOTALL))
    assert sorted(sections) == alerts()
    for rule in rules():
        name = rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning"), name
        assert rule["annotations"]["summary"], name
        assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{name.lower()}"
        assert re.findall(r"^\*\*([\w ]+)\.\*\*", sections[name], re.MULTILINE) == ["Means", "Look at", "Do"], name
