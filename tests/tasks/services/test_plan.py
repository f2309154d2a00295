"""The plan before anything runs: embedded services, given ones, refusals."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from chordesk.agents.role_models import PROVIDER_KEYS
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.settings import Settings, running_desk
from chordesk.models.settings.running_desk import PUBLISHED, is_up, lock_path, snapshot
from chordesk.models.settings.schema import BROKER_KEYS
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.cli.processes import WorkerRole, api, configured, forget_credentials
from chordesk.tasks.engine.kinds import WORKER_QUEUES
from chordesk.tasks.services import plan
from chordesk.tasks.services.plan import LOOPBACK, Choice, Plan, free_ports, is_free
from chordesk.tasks.services.supervision import configuration

WHOLE = ["redis", "rulebook", "research", "ops", "trade", "beat"]


def names(made: Plan) -> list[str]:
    return [program.name for program in made.programs]


def test_by_default_everything_is_embedded_on_loopback_and_a_private_socket(make_plan: Callable[..., Plan]) -> None:
    made = make_plan(Choice())
    assert names(made) == WHOLE
    assert set(made.urls) == {"redis_url", "rulebook_url"}
    assert made.urls["redis_url"].startswith("unix://")
    assert made.urls["rulebook_url"].startswith("http://127.0.0.1:")
    assert made.environ["DESK_REDIS_URL"] == made.urls["redis_url"]
    assert made.settings.rulebook_url == made.urls["rulebook_url"]


def test_other_processes_get_the_providers_settings_of_the_workers(make_plan: Callable[..., Plan]) -> None:
    endpoint = {"DESK_PROVIDER": "endpoint", "DESK_PROVIDER_URL": "https://user:pass-word@example.org/v1"}
    made = make_plan(Choice(), DESK_REPLAY_DATE="2010-08-11", **endpoint)
    labels = {"provider": "endpoint", "model": "gpt-5.5", "market": "replay", "replay_date": "2010-08-11"}
    labels |= {"broker": "paper", "role_models": "", "max_candidates": 20, "trader_live": False}
    assert {**made.announced, **made.urls, **labels, "provider_url": "https://example.org/v1"} == made.announced
    assert made.announced.keys() == {*made.urls, *PUBLISHED, "places", "features_off", "serves"}
    assert "pass-word" not in str(made.announced)
    named = {"DESK_DATABASE_URL": "postgresql+psycopg://me:pass-word@db/desk", "DESK_REDIS_URL": "redis://127.0.0.1:1"}
    elsewhere = make_plan(Choice(), **named).announced
    assert elsewhere["redis_url"] == "redis://127.0.0.1:1"
    assert "database_url" not in elsewhere
    assert elsewhere["places"] == {
        "database_url": "postgresql+psycopg://********@db/desk", "redis_url": "redis://127.0.0.1:1"
    }  # fmt: skip
    assert make_plan(None).announced.keys() == {"redis_url", "rulebook_url"}, "without workers nobody speaks"


def test_a_worker_that_is_started_again_is_what_the_others_are(make_plan: Callable[..., Plan], home: Path) -> None:
    made = make_plan(Choice(), AUTONOMOUS_CONFIG_JSON='{"model": "big"}', TRADER_LIVE="1")
    later = "DESK_MODEL=other\nDESK_PROVIDER=codex\nDESK_REPLAY_DATE=2010-08-11\nDESK_EFFORT=high\n"
    (home / ".env").write_text(f"{later}DESK_ROLE_MODELS=quick=codex:x\nDESK_MAX_ORDER_NOTIONAL=1\n", encoding="utf-8")
    again = load_settings(made.environ, home, own_switch=True)
    assert (again.provider, again.model, again.replay_date) == ("rulebook", "big", made.settings.replay_date)
    assert snapshot(again) == snapshot(made.settings)


def test_a_terminal_with_the_variables_of_the_desk_agrees_with_it(make_plan: Callable[..., Plan], home: Path) -> None:
    own = {"DESK_DRAIN_SECONDS": "20", "DESK_UNIVERSE": "IBM, GE", "DESK_MAX_ORDER_NOTIONAL": "1e4", "TRADER_LIVE": "1"}
    made = make_plan(Choice(), **own)
    assert made.environ["DESK_DRAIN_SECONDS"] == "2.0", "Ctrl-C ends all within 10 s"
    lock_path(home).parent.mkdir(parents=True, exist_ok=True)
    with lock_path(home).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running_desk.write(home, made.announced)
        found = load_settings({"DESK_HOME": str(home), **own}, home)
    assert snapshot(found) == snapshot(made.settings)


@pytest.mark.parametrize(
    ("desk", "terminal", "message"),
    [
        ({}, {"DESK_DATABASE_URL": "sqlite:////else.db"}, r"desk\.db', and here it is .sqlite:////else.* \(from"),
        ({}, {"DESK_REDIS_URL": "redis://else:1/0"}, r"redis_url='unix://.*and here it is .redis://else.* \(from"),
        ({"DESK_DATABASE_URL": "postgresql://me:pw@db/desk"}, {}, r"'postgresql://\*+@db/desk'.*desk\.db' \(default\)"),
    ],
)
def test_a_terminal_with_another_database_or_redis_is_refused(
    make_plan: Callable[..., Plan], home: Path, desk: dict[str, str], terminal: dict[str, str], message: str
) -> None:
    made = make_plan(Choice(), **desk)
    lock_path(home).parent.mkdir(parents=True, exist_ok=True)
    with lock_path(home).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        running_desk.write(home, made.announced)
        with pytest.raises(SettingError, match=message) as error:
            load_settings({"DESK_HOME": str(home), **terminal}, home)
        assert "pw" not in str(error.value)
        same = load_settings({"DESK_HOME": str(home), **desk}, home)
        load_settings({"DESK_HOME": str(home), **terminal}, home, agree=False)
    assert running_desk.places(same) == running_desk.places(made.settings)


def test_no_secret_reaches_the_supervisors_file(make_plan: Callable[..., Plan]) -> None:
    made = make_plan(Choice(), DESK_PROVIDER_KEY="sk-secret", DESK_REDIS_URL="redis://:pass-word@127.0.0.1:6379/0")
    text = configuration(made.programs, made.folders)
    assert "sk-secret" not in text
    assert "pass-word" not in text


def test_a_path_that_the_supervisor_would_cut_is_refused(make_plan: Callable[..., Plan], home: Path) -> None:
    made = make_plan(None, DESK_HOME=str(home / "a #b"))
    with pytest.raises(UsageError, match="a #b"):
        configuration(made.programs, made.folders)


def test_a_look_whether_a_desk_is_up_does_not_keep_one_from_starting(tmp_path: Path) -> None:
    where = plan.prepare_folders(tmp_path)
    looking = lock_path(tmp_path).open("a+")
    fcntl.flock(looking, fcntl.LOCK_SH)
    ended = threading.Timer(0.1, looking.close)
    ended.start()
    with plan.only_one(where):
        assert is_up(tmp_path)
    ended.join()
    assert not is_up(tmp_path)


def test_a_home_that_others_could_list_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, own = tmp_path / "home", tmp_path / "user"
    for folder in (home, own):
        folder.mkdir()
        folder.chmod(0o755)
    monkeypatch.setenv("HOME", str(own))
    plan.prepare_folders(home)
    plan.prepare_folders(own)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (home, own)] == [0o700, 0o755]


def test_a_socket_folder_that_others_can_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    deep = tmp_path / ("x" * 120)
    made = plan.prepare_folders(deep)
    assert made.sockets.parent == tmp_path / "shared"
    made.sockets.chmod(0o755)
    with pytest.raises(UsageError, match="private folder"):
        plan.prepare_folders(deep)


def test_each_secret_reaches_the_processes_that_need_it_alone(make_plan: Callable[..., Plan]) -> None:
    made = make_plan(Choice(research_workers=2, flower=True))
    text = configuration(made.programs, made.folders)
    sections = {part.split("]")[0]: part for part in text.split("[program:")[1:]}

    def without(names: Iterable[str]) -> set[str]:
        every = [f'{name}{end}=""' for name in names for end in ("", "_FILE")]
        return {name for name, part in sections.items() if all(one in part for one in every)}

    assert without(BROKER_KEYS) == sections.keys() - {"trade"}
    providers = [name for names in PROVIDER_KEYS.values() for name in names]
    assert without(providers) == sections.keys() - {"research", "research-2"}
    assert without(Settings.DATA_CREDENTIALS) == sections.keys() - {"research", "research-2", "trade"}
    assert without(["DESK_MESSAGE_KEY"]) == {"redis", "rulebook"}
    assert len(sections) >= 6
    assert without(["DESK_PROVIDER_KEY"]) == sections.keys() - {"research", "research-2", "api"}
    assert without(["DESK_API_TOKEN"]) == sections.keys() - {"api"}
    assert without(["DESK_FLOWER_AUTH"]) == sections.keys() - {"flower"}


def test_a_process_forgets_what_it_does_not_need_wherever_it_came_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("DESK_PROVIDER_KEY=sk-from-the-file\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DESK_HOME", str(tmp_path))
    monkeypatch.setenv("DESK_FLOWER_AUTH", "desk:password")
    found = configured("provider_key")
    assert found.provider_key is not None
    assert (found.flower_auth, os.environ.get("DESK_FLOWER_AUTH")) == (None, None)
    assert configured().provider_key is None


@pytest.mark.parametrize("role", list(WorkerRole))
def test_a_worker_forgets_the_keys_that_its_queues_do_not_need(
    role: WorkerRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = {*Settings.DATA_CREDENTIALS, *(name for names in PROVIDER_KEYS.values() for name in names)}
    orders = {*Settings.DATA_CREDENTIALS, *BROKER_KEYS}
    for name in (every := turns | orders):
        monkeypatch.setenv(name, "given")
    forget_credentials(WORKER_QUEUES[role])
    needed = {WorkerRole.RESEARCH: turns, WorkerRole.OPS: set(), WorkerRole.TRADE: orders, WorkerRole.ALL: every}
    assert every & os.environ.keys() == needed[role]


def test_the_http_service_forgets_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*BROKER_KEYS, "DESK_API_HOST"):
        monkeypatch.setenv(name, "0.0.0.0")
    with pytest.raises(SettingError, match="DESK_API_HOST"):
        api()
    assert not [name for name in BROKER_KEYS if name in os.environ]


def test_each_program_has_a_port_of_its_own_for_metrics_whatever_else_runs(make_plan: Callable[..., Plan]) -> None:
    first = next(port for port in (free_ports(1)[0] for _ in range(100)) if all(map(is_free, range(port, port + 8))))
    few = make_plan(Choice(), DESK_METRICS_PORT=str(first))
    ports = {program.name: program.metrics_port for program in few.programs if program.metrics_port}
    assert ports == {"ops": first, "trade": first + 1, "beat": first + 2, "research": first + 4}
    many = make_plan(Choice(research_workers=4, beat=False, api=True), DESK_METRICS_PORT=str(first))
    others = {program.name: program.metrics_port for program in many.programs if program.metrics_port}
    assert ports.items() - {("beat", first + 2)} <= others.items()
    assert (others["api"], others["research-2"], others["research-4"]) == (first + 3, first + 5, first + 7)
    text = configuration(few.programs, few.folders)
    beat = text[text.index("[program:beat]") :].partition("\n[")[0]
    assert f'DESK_METRICS_PORT="{first + 2}"' in beat
    assert 'ALPACA_SECRET_KEY=""' in beat
    trade = text[text.index("[program:trade]") :].partition("\n[")[0]
    assert f'DESK_METRICS_PORT="{first + 1}"' in trade
    assert "ALPACA" not in trade
    assert "METRICS" not in configuration(make_plan(Choice()).programs, few.folders)


def test_a_port_for_metrics_that_is_taken_is_named_before_anything_starts(make_plan: Callable[..., Plan]) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"DESK_METRICS_PORT={port - 1}: port {port}, that of trade, is taken"):
            make_plan(Choice(), DESK_METRICS_PORT=str(port - 1))
    with pytest.raises(UsageError, match="port 65539, that of research, is none"):
        make_plan(Choice(), DESK_METRICS_PORT="65535")


def test_a_desk_that_runs_already_is_not_mistaken_for_a_taken_port(make_plan: Callable[..., Plan], home: Path) -> None:
    lock_path(home).parent.mkdir(parents=True)
    with socket.create_server((LOOPBACK, 0)) as taken, lock_path(home).open("wb") as lock:
        port = taken.getsockname()[1]
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = make_plan(Choice(), DESK_METRICS_PORT=str(port))
    assert port in {program.metrics_port for program in made.programs}


def test_a_home_that_cannot_be_made_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="DESK_HOME"):
        plan.prepare_folders(tmp_path / "file" / "home")


@pytest.mark.parametrize("count", [0, 33])
def test_a_foolish_number_of_workers_is_refused(count: int) -> None:
    with pytest.raises(UsageError, match=f"--workers {count}"):
        Choice(research_workers=count)
