"""The commands around the desk: what they take, say and answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load
from chordesk.tasks.cli.processes import WorkerRole, worker_arguments
from chordesk.tasks.cli.root import COMMANDS, build, outline
from chordesk.tasks.reading.setting_values import describe
from tests.patience import PATIENCE
from tests.tasks.cli.running import desk, environment


def test_the_outline_has_the_help_of_the_commands() -> None:
    """`desk --help` shows the outline, which no command was loaded for: tasks/cli/root.py has to follow them."""
    whole: dict[str, Any] = get_command(build()).commands  # type: ignore[attr-defined]
    shown: dict[str, Any] = get_command(outline()).commands  # type: ignore[attr-defined]
    assert {name: command.help for name, command in shown.items()} == {
        name: " ".join(command.help.split("\n\n")[0].split()) for name, command in whole.items()
    }
    for one in COMMANDS:
        names = {name for name, command in COMMANDS.items() if command.module == COMMANDS[one].module}
        assert set(get_command(build(one)).commands) == names  # type: ignore[attr-defined]


LOADED = """
import sys
from chordesk.tasks.cli.main import main
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


def loaded(home: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    """A command in a process of its own, and the modules that it loaded."""
    command = [sys.executable, "-P", "-c", LOADED, *arguments]
    done = subprocess.run(
        command, env=environment(home), cwd=home, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    return done, set(done.stderr.splitlines()[-1].split())


def test_help_loads_no_command_and_a_command_itself_alone(tmp_path: Path) -> None:
    done, modules = loaded(tmp_path, "--help")
    assert done.returncode == 0
    assert "A trading desk on a job queue" in done.stdout
    assert not {"celery", "sqlalchemy", "pydantic", "chordesk.tasks.bootstrap", "chordesk.tasks.cli.start"} & modules
    done, modules = loaded(tmp_path, "config", "--json")
    assert json.loads(done.stdout)
    assert "chordesk.tasks.cli.health" in modules
    others = {"chordesk.tasks.cli.start", "chordesk.tasks.cli.up", "chordesk.tasks.cli.threads"}
    assert not {*others, "sqlalchemy", "celery", "numpy", "chordesk.agents.roles"} & modules


def test_a_health_check_loads_not_even_the_parser(tmp_path: Path) -> None:
    done, modules = loaded(tmp_path, "ping", "ops")
    assert done.returncode == 1
    assert "error: no answer from ops*@" in done.stderr
    assert "chordesk.tasks.cli.ping" in modules
    ours = {name for name in modules if name.startswith("chordesk.")}
    wanted = {
        "chordesk.tasks.cli.main",
        "chordesk.tasks.cli.ping",
        "chordesk.tasks.cli.standard_output",
        "chordesk.tasks.worker.sockets",
    }
    above = {"chordesk.tasks", "chordesk.tasks.cli", "chordesk.tasks.worker"}
    assert ours == wanted | above
    assert not {"typer", "click", "rich", "pydantic", "celery", "redis"} & modules
    assert desk(tmp_path, "ping", "nonsense").returncode == 2


def test_config_shows_every_setting_where_it_came_from_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DESK_SHARD_SIZE=99\n", encoding="utf-8")
    (tmp_path / "desk.toml").write_text("market = 'replay'\n", encoding="utf-8")
    environ = {
        "DESK_HOME": str(tmp_path),
        "DESK_PROVIDER": "endpoint",
        "DESK_PROVIDER_KEY": "sk-very-secret",
        "DESK_PROVIDER_URL": "https://example.org/v1?token=hidden-word",
        "DESK_REDIS_URL": "redis://:hidden-word@127.0.0.1:6379/0",
        "DESK_DATABASE_URL": "postgresql+psycopg://desk:hidden-word@127.0.0.1/desk",
        "SCREENER_MAX_CANDIDATES": "7",
        "TRADER_LIVE": "1",
    }
    rows = {row["name"]: row for row in describe(load(environ, tmp_path))}
    assert set(rows) == set(Settings.model_fields)
    dumped = json.dumps(list(rows.values()))
    assert "hidden-word" not in dumped
    assert "very-secret" not in dumped
    assert rows["redis_url"]["value"] == "redis://********@127.0.0.1:6379/0"
    assert rows["max_candidates"]["source"] == "SCREENER_MAX_CANDIDATES (environment)"
    assert rows["shard_size"] == {**rows["shard_size"], "value": 99, "source": "DESK_SHARD_SIZE (.env)"}
    assert rows["market"]["source"].endswith("desk.toml)")
    assert rows["trader_live"] == {**rows["trader_live"], "value": True, "source": "TRADER_LIVE (environment)"}
    assert rows["codex_turns"]["source"] == "default"


def test_status_shows_that_no_desk_runs_and_the_standing_of_this_terminal(tmp_path: Path) -> None:
    environ = {"DESK_BROKER": "alpaca-live", "TRADER_LIVE": "1"}
    shown = " ".join(desk(tmp_path, "status", **environ).stdout.split())  # long lines are wrapped
    assert shown.startswith(f"no `desk up` runs on {tmp_path}; by this terminal's settings: LIVE; broker alpaca-live")
    assert "(REAL MONEY); account alpaca-live; model rulebook (rules, no model); market replay on 2010-08-12" in shown
    found = json.loads(desk(tmp_path, "status", "--json", **environ).stdout)
    assert (found["running"], found["standing"]["real_money"]) == (False, True)


@pytest.mark.parametrize(
    ("command", "environ", "parts"),
    [
        ("config", {"DESK_CODEX_TURNS": "many"}, ("DESK_CODEX_TURNS", "many")),
        ("config", {"DESK_ROLE_MODELS": "nobody=codex:x"}, ("DESK_ROLE_MODELS", "no role 'nobody'")),
        ("config", {"TRADER_LIVE": "true"}, ("TRADER_LIVE='true'", "must be exactly 1 or 0", "set TRADER_LIVE=1")),
        ("runs list", {"DESK_REDIS_URL": "http://:hidden-word@127.0.0.1"}, ("DESK_REDIS_URL", "redis://")),
        ("worker ops", {"DESK_REDIS_URL": "redis://:hidden-word/@127.0.0.1"}, ("DESK_REDIS_URL", "percent-encode")),
        ("db upgrade", {"DESK_DATABASE_URL": "mysql://me:hidden-word@127.0.0.1/desk"}, ("DESK_DATABASE_URL", "sqlite")),
        ("runs list", {"DESK_DATABASE_URL": "sqlite:////dev/null/desk.db"}, ("/dev/null is not a folder", "DESK_HOME")),
        ("demo --home /dev/null/demo", {}, ("/dev/null/demo", "--home")),
        ("flower", {"DESK_HOME": "{home}/file", "DESK_REDIS_URL": "redis://127.0.0.1:1"}, ("file", "DESK_HOME")),
        (
            "screen --no-wait",
            {"DESK_REDIS_URL": "redis://127.0.0.1:1", "DESK_MESSAGE_KEY": "0123456789abcdef" * 2},
            ("no desk has run on", "desk up"),
        ),
        ("screen --no-wait", {}, ("no Redis", "desk up")),
        ("worker ops", {}, ("no Redis", "desk up")),
        ("config --running", {}, ("no `desk up` runs on", "DESK_HOME")),
        ("up", {"DESK_WEB_SEARCH": "research"}, ("DESK_WEB_SEARCH", "market=replay", "DESK_WEB_SEARCH=off")),
        ("worker ops", {"DESK_RESEARCH_ROLES": "nobody"}, ("DESK_RESEARCH_ROLES", "nobody")),
    ],
)
def test_unusable_input_is_refused_without_a_traceback(
    tmp_path: Path, command: str, environ: dict[str, str], parts: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    done = desk(tmp_path, *command.split(), **{key: value.format(home=tmp_path) for key, value in environ.items()})
    assert done.returncode == 2, done
    error, remedy = done.stderr.splitlines()
    assert (error.startswith("error: "), remedy.startswith("remedy: ")) == (True, True)
    for part in parts:
        assert part in done.stderr
    assert "hidden" not in done.stderr


def test_a_live_switch_in_a_file_is_warned_of_once(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TRADER_LIVE=1\n", encoding="utf-8")
    done = desk(tmp_path, "config", "--json")
    assert done.returncode == 0
    assert not next(row for row in json.loads(done.stdout) if row["name"] == "trader_live")["value"]
    assert done.stderr.count("TRADER_LIVE") == 1
    assert done.stderr.startswith(f"warning: TRADER_LIVE in {tmp_path / '.env'} is not read")
    assert desk(tmp_path, "config", "--json", TRADER_LIVE="1").stderr == ""
    assert desk(tmp_path, "runs", "list").stderr.count("TRADER_LIVE") == 0


def test_db_upgrade_makes_the_schema_and_current_knows_it(tmp_path: Path) -> None:
    before = desk(tmp_path, "db", "current", "--json")
    assert before.returncode == 1
    assert json.loads(before.stdout)["revision"] is None
    assert desk(tmp_path, "db", "upgrade").returncode == 0
    after = desk(tmp_path, "db", "current", "--json")
    found = json.loads(after.stdout)
    assert (after.returncode, found["revision"]) == (0, found["newest"])
    assert "up to date" in desk(tmp_path, "db", "upgrade").stdout


def _value(arguments: list[str], flag: str) -> str:
    return arguments[arguments.index(flag) + 1]


@pytest.mark.parametrize(
    ("role", "asked", "queues", "count"),
    [
        (WorkerRole.RESEARCH, None, "screen,research", "12"),
        (WorkerRole.RESEARCH, 5, "screen,research", "5"),
        (WorkerRole.OPS, None, "ops", "8"),
        (WorkerRole.TRADE, None, "trade", "1"),
        (WorkerRole.TRADE, 5, "trade", "1"),
        (WorkerRole.ALL, None, "screen,research,ops,trade", "20"),
    ],
)
def test_each_role_serves_its_queues_and_trades_go_one_after_the_other(
    role: WorkerRole, asked: int | None, queues: str, count: str
) -> None:
    made = worker_arguments(Settings(codex_turns=12), role, asked, "w")
    assert (_value(made, "-Q"), _value(made, "-c"), _value(made, "-P")) == (queues, count, "threads")
    assert {"-E", "--without-mingle", "--without-gossip"} <= set(made)
