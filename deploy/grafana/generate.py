"""Writes the dashboards from the tables below: `python deploy/grafana/generate.py`; with `--check` it only compares.

A panel is a title, a unit and queries with their legends. Gauges of the whole desk are shown by each worker with the
queue ops, so queries take their maximum.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, ACROSS = 24, 3
TALL, SHORT = 8, 4


@dataclass(frozen=True)
class Panel:
    """queries: expression and legend of each. one: a single figure, in place of lines over time."""

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    one: bool = False
    what: str = ""


def stat(title: str, query: str, unit: str = "short", legend: str = "", what: str = "") -> Panel:
    return Panel(title, [(query, legend)], unit, one=True, what=what)


def lines(title: str, *queries: tuple[str, str], unit: str = "short", what: str = "") -> Panel:
    return Panel(title, queries, unit, what=what)


def share(metric: str, which: str, by: str = "", over: str = "10m") -> str:
    """Return the query of a share of a counter's increase."""
    total = f"sum{f' by ({by})' if by else ''}"
    return f"{total} (rate({metric}{{{which}}}[{over}])) / {total} (rate({metric}[{over}]))"


def quantiles(metric: str, by: str) -> list[tuple[str, str]]:
    total = f"sum by (le, {by}) (rate({metric}_bucket[5m]))"
    return [(f"histogram_quantile({share}, {total})", f"{{{{{by}}}}} p{share * 100:.0f}") for share in (0.5, 0.95)]


DASHBOARDS: Mapping[str, tuple[str, Sequence[Panel]]] = {
    "desk": (
        "Desk",
        [
            stat("Trading state", "max by (state) (desk_trading_state) == 1", legend="{{state}}"),
            stat("Open runs", "sum(max by (kind) (desk_runs_open))"),
            stat("Steps due", "sum(max by (queue) (desk_steps_due))"),
            stat("Turns in flight", "sum(desk_turns_in_flight)"),
            stat("Parked models", "max(desk_models_parked)"),
            stat("Waiting for a person", "sum(max by (kind) (desk_waiting))"),
            stat("Sweep", "max(desk_sweep_age_seconds)", "s", what="Time since the last sweep ended."),
            stat("Tokens of the day", "max(desk_day_tokens)"),
            stat("Cost of the day", "max(desk_day_usd)", "currencyUSD", what="An estimate; no figure without a price."),
            lines("Steps due by queue", ("max by (queue) (desk_steps_due)", "{{queue}}")),
            lines("Oldest due step", ("max by (queue) (desk_steps_due_age_seconds)", "{{queue}}"), unit="s"),
            lines("Steps in work", ("max by (queue) (desk_steps_running)", "{{queue}}")),
            lines("Parts that answer", ("desk_part_up", "{{part}} {{instance}}")),
            lines("Little room (2: none)", ("max by (instance, what) (desk_room_short)", "{{what}} {{instance}}")),
            lines("Alerts", ('count by (alertname) (ALERTS{alertstate="firing"})', "{{alertname}}")),
            lines("Equity", ("max by (account) (desk_equity)", "{{account}}")),
        ],
    ),
    "runs": (
        "Runs",
        [
            lines("Open runs", ("max by (kind) (desk_runs_open)", "{{kind}}")),
            lines(
                "Runs that ended, an hour",
                ("sum by (kind, state) (increase(desk_runs_total[1h]))", "{{kind}} {{state}}"),
            ),
            lines("Length of runs", *quantiles("desk_run_seconds", "kind"), unit="s"),
            lines("Messages in Redis", ("max by (queue) (desk_queue_messages)", "{{queue}}")),
            lines("Messages held by workers", ("max(desk_messages_held)", "held")),
            lines("Steps that lost their worker, 10 minutes", ("max(desk_attempts_lost)", "lost")),
            lines("Tool calls, a second", ("sum by (name) (rate(desk_tool_invocations_total[5m]))", "{{name}}")),
            lines(
                "Tool calls that fail, a second",
                ('sum by (name) (rate(desk_tool_invocations_total{success="false"}[5m]))', "{{name}}"),
            ),
            lines("Length of tool calls", *quantiles("desk_tool_seconds", "name"), unit="s"),
        ],
    ),
    "models": (
        "Models and cost",
        [
            stat("Tokens of the day", "max(desk_day_tokens)"),
            stat("Budget used", 'max(desk_day_tokens) / max(desk_limit{limit="day_tokens"})', "percentunit"),
            stat("Cost of the day", "max(desk_day_usd)", "currencyUSD", what="An estimate; no figure without a price."),
            lines("Turns, a second", ("sum by (outcome) (rate(desk_turns_total[5m]))", "{{outcome}}")),
            lines("Length of turns", *quantiles("desk_turn_seconds", "role"), unit="s"),
            lines("Turns that fail", (share("desk_turns_total", 'outcome="failed"'), "share"), unit="percentunit"),
            lines("Tokens, a second", ("sum by (direction) (rate(desk_tokens_total[5m]))", "{{direction}}")),
            lines("Tokens by role, a second", ("sum by (role) (rate(desk_tokens_total[5m]))", "{{role}}")),
            lines(
                "Turns without figures of tokens, a second",
                ("sum by (role, direction) (rate(desk_usage_missing_total[5m]))", "{{role}} {{direction}}"),
            ),
            lines("Parked models", ("max by (model) (desk_model_parked_seconds)", "{{model}}"), unit="s"),
            lines(
                "Turns with a place, and those that wait",
                ("max by (model) (desk_turns_reserved)", "{{model}}"),
                ("max by (model) (desk_turns_waiting)", "{{model}} waits"),
            ),
            lines("Errors of providers, a second", ("sum by (kind) (rate(desk_codex_errors_total[5m]))", "{{kind}}")),
            lines(
                "Figures that a tool supports",
                (share("desk_figures_total", 'supported="true"', "role", "1h"), "{{role}}"),
                unit="percentunit",
            ),
        ],
    ),
    "orders": (
        "Orders and risk",
        [
            stat("Trading state", "max by (state) (desk_trading_state) == 1", legend="{{state}}"),
            stat("Equity", "max by (account) (desk_equity)", legend="{{account}}"),
            stat("Below the highest", "max by (account) (desk_drawdown_share)", "percentunit", "{{account}}"),
            stat("Change of the day", "max by (account) (desk_day_change_share)", "percentunit", "{{account}}"),
            stat("Waiting for a person", "max by (kind) (desk_waiting)", legend="{{kind}}"),
            stat("Unknown orders", 'max(desk_orders_open{state="unknown"})'),
            lines("Equity over time", ("max by (account) (desk_equity)", "{{account}}")),
            lines(
                "Fall and its limit",
                ("max by (account) (desk_drawdown_share)", "{{account}}"),
                ('max(desk_limit{limit="drawdown"})', "limit"),
                unit="percentunit",
            ),
            lines(
                "Loss of the day and its limit",
                ("-min by (account) (desk_day_change_share)", "{{account}}"),
                ('max(desk_limit{limit="daily_loss"})', "limit"),
                unit="percentunit",
            ),
            lines("Orders by state", ("max by (state) (desk_orders_open)", "{{state}}")),
            lines(
                "Orders that came into a state, an hour",
                ("sum by (state) (increase(desk_orders_total[1h]))", "{{state}}"),
            ),
            lines("Longest wait", ("max by (kind) (desk_waiting_age_seconds)", "{{kind}}"), unit="s"),
        ],
    ),
    "fleet": (
        "Fleet",
        [
            stat("Processes that answer", 'count(up{job="desk"} == 1)'),
            stat("Research workers", 'sum(desk_ready{role=~"research|all"})'),
            stat(
                "Demand",
                "max(desk_research_demand)",
                what="Due and running steps of research workers; autoscalers ask the same.",
            ),
            lines("Ready by role", ("sum by (role) (desk_ready)", "{{role}}")),
            lines("Steps by worker", ("desk_steps_held", "{{instance}}")),
            lines("Turns in flight by worker", ("sum by (instance) (desk_turns_in_flight)", "{{instance}}")),
            lines("App-servers", ("sum by (instance, kind) (desk_app_servers)", "{{instance}} {{kind}}")),
            lines("Memory of app-servers", ("sum by (instance) (desk_app_server_bytes)", "{{instance}}"), unit="bytes"),
            lines(
                "Largest app-server",
                ("max by (instance) (desk_app_server_largest_bytes)", "{{instance}}"),
                ('max(desk_limit{limit="app_server_bytes"})', "replaced at"),
                unit="bytes",
            ),
            lines("Memory of processes", ('process_resident_memory_bytes{job="desk"}', "{{instance}}"), unit="bytes"),
            lines(
                "CPU of processes",
                ('rate(process_cpu_seconds_total{job="desk"}[5m])', "{{instance}}"),
                unit="percentunit",
            ),
            lines(
                "Notifications",
                ("max by (channel) (desk_notifications_waiting)", "{{channel}} waiting"),
                ("max by (channel) (desk_notifications_given_up)", "{{channel}} given up in 24 h"),
            ),
            lines(
                "Oldest notification that is late",
                ("max by (channel) (desk_notifications_late_seconds)", "{{channel}}"),
                unit="s",
            ),
            lines(
                "Events dropped",
                ("sum by (instance, queue) (increase(desk_events_dropped_total[10m]))", "{{instance}} {{queue}}"),
            ),
        ],
    ),
}


def dashboard(name: str) -> dict[str, Any]:
    """Return a dashboard as Grafana imports it."""
    title, panels = DASHBOARDS[name]
    return {
        "uid": f"desk-{name}",
        "title": title,
        "tags": ["desk"],
        "schemaVersion": 38,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "links": [
            {"title": "Dashboards", "type": "dashboards", "tags": ["desk"], "asDropdown": True, "keepTime": True}
        ],
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"}]
        },
        "panels": _placed(panels),
    }


def _placed(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """Return the panels, the single figures in rows above the others."""
    found, top = [], 0
    for group, height in (([one for one in panels if one.one], SHORT), ([one for one in panels if not one.one], TALL)):
        width = WIDTH // ACROSS
        for place, panel in enumerate(group):
            at = {"x": place % ACROSS * width, "y": top + place // ACROSS * height, "w": width, "h": height}
            found.append(_panel(len(found) + 1, panel, at))
        top += -(-len(group) // ACROSS) * height
    return found


def _panel(number: int, panel: Panel, at: Mapping[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + place), "expr": query, "legendFormat": legend or "__auto", "datasource": SOURCE}
        for place, (query, legend) in enumerate(panel.queries)
    ]
    options: dict[str, Any] = {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}}
    if panel.one:
        name = "{{state}}" in panel.queries[0][1]
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "name" if name else "auto"}
    return {
        "id": number,
        "type": "stat" if panel.one else "timeseries",
        "title": panel.title,
        "description": panel.what,
        "datasource": SOURCE,
        "gridPos": dict(at),
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": options,
    }


def text(name: str) -> str:
    """Return the file of a dashboard."""
    return json.dumps(dashboard(name), indent=1) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the stale files, or with --check name them; return the exit code."""
    FOLDER.mkdir(exist_ok=True)
    stale = [name for name in DASHBOARDS if not _path(name).exists() or _path(name).read_text() != text(name)]
    for name in stale:
        print(f"{name}.json {'is stale' if '--check' in arguments else 'written'}")
        if "--check" not in arguments:
            _path(name).write_text(text(name), encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


def _path(name: str) -> Path:
    return FOLDER / f"{name}.json"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
