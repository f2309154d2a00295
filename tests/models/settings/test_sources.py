"""Settings: sources by strength, aliases, the live switch, and errors that name variable, value and remedy."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.errors import SettingError
from models.settings import ALIASES, LENSES, Settings, running
from models.settings.snapshots import snapshot
from models.settings.sources import load, load_for_halt, load_settings
from models.states import MODES


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path


def of(here: Path, **environ: str) -> Settings:
    return load_settings({"DESK_HOME": str(here / "home"), **environ}, here)


def test_a_fresh_configuration_uses_the_rulebook_replays_and_cannot_trade_live(here: Path) -> None:
    settings = of(here)
    assert (settings.provider, settings.market, settings.broker, settings.account) == (
        "rulebook",
        "replay",
        "paper",
        "paper",
    )
    assert settings.trader_live is False
    assert settings.lenses == LENSES
    assert "rule" in settings.model_label
    assert settings.model == "gpt-5.5"


def test_stronger_sources_win_and_each_value_knows_its_origin(here: Path) -> None:
    (here / "desk.toml").write_text("max_candidates = 5\nmodel = 'a'\nshard_size = 7\n")
    (here / ".env").write_text("DESK_MODEL=b\nSCREENER_MAX_CANDIDATES=6\n")
    inside = here / "deep" / "down"
    inside.mkdir(parents=True)
    loaded = load({"DESK_HOME": str(here / "home"), "DESK_MODEL": "c"}, inside)
    assert (loaded.settings.model, loaded.origins["model"].source) == ("c", "environment")
    assert (loaded.settings.max_candidates, loaded.origins["max_candidates"].key) == (6, "SCREENER_MAX_CANDIDATES")
    assert (loaded.settings.shard_size, loaded.origins["shard_size"].source) == (7, str(here / "desk.toml"))
    assert "codex_turns" not in loaded.origins


@pytest.mark.parametrize("name", sorted(ALIASES))
def test_the_first_documents_names_work(here: Path, name: str) -> None:
    value = {"options_mode": "both", "stock_only": "false"}.get(ALIASES[name], "7")
    assert str(getattr(of(here, **{name: value}), ALIASES[name])).lower().startswith(value)


def test_the_desk_name_wins_over_its_alias(here: Path) -> None:
    assert of(here, SCREENER_MAX_CANDIDATES="3", DESK_MAX_CANDIDATES="4").max_candidates == 4


@pytest.mark.parametrize(("value", "live"), [("1", True), ("0", False), ("", False)])
def test_live_trading_is_on_only_when_exactly_1(here: Path, value: str, live: bool) -> None:
    assert of(here, TRADER_LIVE=value).trader_live is live


@pytest.mark.parametrize("value", ["true", "01", " 1", "yes", "on", "False"])
def test_a_live_switch_that_is_neither_1_nor_0_is_an_error(here: Path, value: str) -> None:
    with pytest.raises(SettingError, match=f"TRADER_LIVE='{value}'.*must be exactly 1 or 0") as error:
        of(here, TRADER_LIVE=value)
    assert "TRADER_LIVE=1" in error.value.remedy


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("AUTONOMOUS_MAX_THREAD_TURN", "AUTONOMOUS_MAX_THREAD_TURNS"),
        ("AUTONOMOUS_FOO", None),
        ("SCREENER_MAX_CANDIDATE", "SCREENER_MAX_CANDIDATES"),
        ("TRADER_LIFE", "TRADER_LIVE"),
        ("DESK_MAX_CANDIDATE", "DESK_MAX_CANDIDATES"),
        ("DESK_XYZ", None),
    ],
)
@pytest.mark.parametrize("place", ["environment", ".env"])
def test_a_misspelt_name_is_an_error_with_the_name_that_is_meant(
    here: Path, name: str, meant: str | None, place: str
) -> None:
    environ = {name: "1"} if place == "environment" else {}
    (here / ".env").write_text("" if environ else f"{name}=1\n")
    with pytest.raises(SettingError, match=rf"^{name} \(from {place}\) is not a setting") as error:
        of(here, **environ)
    assert (f"write {meant}," in error.value.remedy) == (meant is not None)


@pytest.mark.parametrize("name", ["SCREENER_COLOUR", "TRADER_NAME", "AUTONOMY"])
def test_a_name_of_another_program_is_left_alone(here: Path, name: str) -> None:
    assert of(here, **{name: "1"}) == of(here)


def test_a_broker_that_there_is_not_is_named_and_not_its_account(here: Path) -> None:
    with pytest.raises(SettingError) as error:
        of(here, DESK_BROKER="foo")
    assert str(error.value.args[0]).startswith("DESK_BROKER='foo' (from environment)")
    assert "account" not in str(error.value.args[0]).lower()
    with pytest.raises(SettingError, match=r"leave DESK_ACCOUNT out: DESK_ACCOUNT='paper' \(from environment\)"):
        of(here, DESK_ACCOUNT="paper", DESK_BROKER="alpaca-paper")


def test_no_file_can_switch_live_trading_on(here: Path) -> None:
    (here / ".env").write_text("TRADER_LIVE=1\n")
    assert of(here).trader_live is False
    with pytest.raises(SettingError, match="DESK_TRADER_LIVE"):
        of(here, DESK_TRADER_LIVE="1")
    (here / "desk.toml").write_text("trader_live = true\n")
    with pytest.raises(SettingError, match="process environment alone"):
        of(here)
    (here / "desk.toml").write_text("TRADER_LIVE = '1'\n")
    with pytest.raises(SettingError, match="process environment alone"):
        of(here)


@pytest.mark.parametrize(
    ("inside", "outside", "state"),
    [("1", None, "off"), ("0", "1", "on"), ("1", "0", "off"), ("1", "1", None), ("0", "0", None)],
)
def test_a_switch_that_is_not_read_is_reported(here: Path, inside: str, outside: str | None, state: str | None) -> None:
    (here / ".env").write_text(f"TRADER_LIVE={inside}\n")
    deep = here / "deep"
    deep.mkdir()
    environ = {"DESK_HOME": str(here / "home"), **({"TRADER_LIVE": outside} if outside else {})}
    found = load(environ, deep)
    assert found.settings.trader_live is (outside == "1")
    if state is None:
        assert found.warnings == ()
    else:
        (warning,) = found.warnings
        assert warning.startswith(f"TRADER_LIVE in {here / '.env'} is not read")
        assert warning.endswith(f"here {state}")


def test_a_mode_may_have_limits_of_its_own(here: Path) -> None:
    settings = of(here, AUTONOMOUS_CONFIG_JSON='{"maxThreadTurns": 9, "trader": {"maxThreadTurns": 3}}')
    assert (settings.max_thread_turns, settings.trader_max_thread_turns) == (9, 3)
    assert settings.screener_max_thread_turns is None
    (here / "desk.toml").write_text("[screener]\nmaxThreadAgeHours = 1.5\n[research]\nmax_thread_turns = 7\n")
    loaded = load({"DESK_HOME": str(here / "home"), "DESK_RESEARCH_MAX_THREAD_TURNS": "8"}, here)
    assert (loaded.settings.screener_max_thread_age_hours, loaded.settings.research_max_thread_turns) == (1.5, 8)
    assert loaded.origins["screener_max_thread_age_hours"].key == "screener.maxThreadAgeHours"
    for mode in MODES:
        own = {f"{mode}_max_thread_age_hours", f"{mode}_max_thread_turns", f"{mode}_thread_tokens"}
        assert own <= set(Settings.model_fields)
    assert of(here, AUTONOMOUS_CONFIG_JSON='{"screener": {"threadTokens": 5}}').screener_thread_tokens == 5


def test_the_json_may_be_inline_or_a_file(here: Path) -> None:
    assert of(here, AUTONOMOUS_CONFIG_JSON='{"maxThreadTurns": 9}').max_thread_turns == 9
    path = here / "config.json"
    path.write_text(json.dumps({"max_thread_turns": 8, "AUTONOMOUS_STOCK_ONLY": False}))
    settings = of(here, AUTONOMOUS_CONFIG_JSON=str(path))
    assert (settings.max_thread_turns, settings.stock_only) == (8, False)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"DESK_PROVIDER": "gpt"}, r"DESK_PROVIDER='gpt' \(from environment\).*'rulebook', 'codex' or 'endpoint'"),
        ({"SCREENER_MAX_CANDIDATES": "0"}, r"SCREENER_MAX_CANDIDATES='0'.*greater than or equal to 1"),
        ({"AUTONOMOUS_TRADER_OPTIONS_MODE": "x"}, r"AUTONOMOUS_TRADER_OPTIONS_MODE='x'.*'stocks-only'"),
        ({"DESK_MODLE": "x"}, r"DESK_MODLE \(from environment\) is not a setting"),
        ({"DESK_LENSES": "technical,psychic"}, r"DESK_LENSES.*'technical'"),
        ({"DESK_LENSES": ","}, r"DESK_LENSES.*technical, fundamental, catalyst, options"),
        ({"DESK_RESEARCH_ROLES": ","}, r"DESK_RESEARCH_ROLES=',' \(from environment\).*name at least one role"),
        ({"DESK_SCREENER": "both"}, r"DESK_SCREENER='both' \(from environment\).*'lenses' or 'unified'"),
        ({"DESK_PREMARKET": "25:00"}, r"DESK_PREMARKET='25:00' \(from environment\): must be HH:MM or off"),
        ({"DESK_REPLAY_DATE": "soon"}, r"DESK_REPLAY_DATE='soon'"),
        (
            {"DESK_TURN_SECONDS": "240"},
            r"DESK_TURN_SECONDS='240' \(from environment\), DESK_STEP_DEADLINE_SECONDS=240.0 \(default\)",
        ),
        (
            {"AUTONOMOUS_CONFIG_JSON": '{"stepDeadlineSeconds": 15}'},
            r"DESK_TOOL_SECONDS=20.0 \(default\), stepDeadlineSeconds=15 \(from AUTONOMOUS_CONFIG_JSON\)",
        ),
        (
            {"DESK_PROVIDER": "endpoint"},
            r"needs a URL: DESK_PROVIDER='endpoint' \(from environment\), DESK_PROVIDER_URL is not set",
        ),
        ({"DESK_STARTING_CASH": "nan"}, r"DESK_STARTING_CASH='nan'"),
        ({"AUTONOMOUS_CONFIG_JSON": "{nonsense"}, r"AUTONOMOUS_CONFIG_JSON: neither a JSON object.*column 2"),
        ({"AUTONOMOUS_CONFIG_JSON": "[1]"}, r"AUTONOMOUS_CONFIG_JSON"),
        ({"AUTONOMOUS_CONFIG_JSON": '{"trader": {"maxThreadTurns": 0}}'}, r"trader.maxThreadTurns=0 \(from AUTON"),
        ({"AUTONOMOUS_CONFIG_JSON": '{"trader": {"maxTurns": 1}}'}, r"trader.maxTurns .* is not a setting"),
        ({"AUTONOMOUS_CONFIG_JSON": '{"traders": {"maxThreadTurns": 1}}'}, r"traders .* is not a setting"),
        ({"DESK_CONFIG": "/does/not/exist.toml"}, r"DESK_CONFIG='/does/not/exist.toml': no such file"),
    ],
)
def test_a_wrong_value_is_named_with_its_variable_and_what_is_allowed(
    here: Path, environ: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        of(here, **environ)


def test_a_wrong_secret_is_not_printed(here: Path) -> None:
    with pytest.raises(SettingError) as error:
        load({"DESK_HOME": str(here), "AUTONOMOUS_CONFIG_JSON": json.dumps({"provider_key": ["hunter2"]})}, here)
    assert "hunter2" not in str(error.value)
    for environ in ({"DESK_PROVIDER_KEYX": "hunter2"}, {"AUTONOMOUS_CONFIG_JSON": '{"provider_key": "hunter2", x}'}):
        with pytest.raises(SettingError) as slip:
            load({"DESK_HOME": str(here), **environ}, here)
        assert "hunter2" not in str(slip.value)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("DESK_PROVIDER_URL", "ftp://user:hunter2@example.org/v1", "begins with http:// or https://"),
        ("DESK_PROVIDER_URL", "https://", "names a host"),
        ("DESK_PROVIDER_URL", "https://user:hunter2@example.org:port/v1", "names a host"),
        ("DESK_PROVIDER_URL", "hunter2", "begins with http:// or https://"),
        ("DESK_RULEBOOK_URL", "unix:///rulebook.sock", "begins with http:// or https://"),
        ("DESK_REDIS_URL", "http://:hunter2@127.0.0.1:6379", "redis://, rediss:// or unix://"),
        ("DESK_REDIS_URL", "127.0.0.1:6379", "redis://, rediss:// or unix://"),
        ("DESK_DATABASE_URL", "mysql://desk:hunter2@127.0.0.1/desk", "sqlite:///PATH or postgresql+psycopg://"),
        ("DESK_DATABASE_URL", "postgresql+asyncpg://desk:hunter2@127.0.0.1/desk", "postgresql+psycopg://"),
        ("DESK_DATABASE_URL", "desk.db", "sqlite:///PATH"),
    ],
)
def test_a_url_of_another_kind_is_refused_and_its_password_is_not_repeated(
    here: Path, name: str, value: str, allowed: str
) -> None:
    with pytest.raises(SettingError) as error:
        of(here, **{name: value})
    message = str(error.value)
    assert message.startswith(f"{name}=")
    assert "(from environment)" in message
    assert allowed in message
    assert SettingError.remedy in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    "environ",
    [
        {"DESK_PROVIDER_URL": "HTTPS://user:pass@[::1]:8443/v1?api-version=1"},
        {"DESK_RULEBOOK_URL": "http://127.0.0.1:1/v1"},
        *(
            {"DESK_REDIS_URL": url}
            for url in ("redis://:p%40ss@host:1/0", "rediss://host", "unix:///run/redis.sock?db=1")
        ),
        *({"DESK_DATABASE_URL": url} for url in ("sqlite:////desk.db", "postgresql://h/d", "postgresql+psycopg://h/d")),
    ],
)
def test_urls_of_the_right_kind_pass(here: Path, environ: dict[str, str]) -> None:
    assert of(here, **environ)


class Up:
    """Files of a running `desk up` on the home, without its processes."""

    def __init__(self, home: Path) -> None:
        self.file = running.services_path(home)
        self.file.parent.mkdir(parents=True)
        self.lock = running.lock_path(home).open("w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)

    def leave(self, table: object) -> None:
        self.file.write_text(json.dumps(table))


@pytest.fixture
def up(here: Path) -> Iterator[Up]:
    made = Up(here / "home")
    yield made
    made.lock.close()


def test_a_running_desk_is_the_weakest_source(here: Path, up: Up) -> None:
    up.leave({"redis_url": "unix:///here.sock", "rulebook_url": "http://127.0.0.1:1/v1", "pid": 3})
    settings = of(here)
    assert settings.redis_url is not None
    assert settings.redis_url.get_secret_value() == "unix:///here.sock"
    assert of(here, DESK_REDIS_URL="redis://other").redis_url != settings.redis_url


def test_the_published_settings_of_a_desk_count_only_while_it_runs(here: Path, up: Up) -> None:
    environ = {"DESK_HOME": str(here / "home"), "DESK_MODEL": "mine"}
    up.leave({"redis_url": "unix:///here.sock", "provider": "codex", "model": "theirs"})
    with pytest.raises(SettingError, match="theirs"):
        load(environ, here)
    alone = load(environ, here, join=False).settings
    assert (alone.redis_url, alone.provider, alone.model) == (None, "rulebook", "mine")
    up.lock.close()
    assert load(environ, here).settings == alone
    up.leave([])
    assert load(environ, here).settings == alone


@pytest.mark.parametrize("table", [[], "text", 3, None])
def test_a_file_of_a_running_desk_that_cannot_be_read_is_reported(here: Path, up: Up, table: object) -> None:
    up.leave(table)
    with pytest.raises(SettingError, match=r"services\.json: holds no JSON object.*stop `desk up`"):
        of(here)
    up.file.write_text("{")
    with pytest.raises(SettingError, match=r"services\.json: .*stop `desk up`"):
        of(here)
    up.leave({"replay_date": ["soon"]})
    with pytest.raises(SettingError, match=r"replay_date=\['soon'\] \(from desk up\)"):
        of(here)


def test_a_second_terminal_uses_the_settings_of_the_running_desk(here: Path, up: Up) -> None:
    theirs = of(
        here,
        DESK_PROVIDER="endpoint",
        DESK_PROVIDER_URL="https://user:hunter2@example.org/v1?key=hunter2",
        DESK_REPLAY_DATE="2010-08-11",
        DESK_MODEL="big",
        DESK_BROKER="alpaca-paper",
    )
    up.leave(snapshot(theirs))
    assert "hunter2" not in up.file.read_text()
    loaded = load({"DESK_HOME": str(here / "home")}, here)
    names = ("provider", "model", "market", "replay_date", "broker")
    assert [getattr(loaded.settings, name) for name in names] == [getattr(theirs, name) for name in names]
    assert loaded.settings.provider_url == "https://example.org/v1"
    assert {loaded.origins[name].source for name in (*names, "provider_url")} == {"desk up"}
    same = of(here, DESK_PROVIDER="endpoint", DESK_PROVIDER_URL="https://user:hunter2@example.org/v1?key=hunter2")
    assert (same.model_label, same.replay_date) == (theirs.model_label, theirs.replay_date)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"DESK_PROVIDER": "codex"}, r"DESK_PROVIDER='codex' \(from environment\).*provider='rulebook'"),
        ({"DESK_MODEL": "big"}, r"DESK_MODEL='big' \(from environment\).*model='gpt-5.5'"),
        ({"DESK_MARKET": "yahoo"}, r"DESK_MARKET='yahoo'.*market='replay'"),
        ({"DESK_REPLAY_DATE": "2010-08-11"}, r"DESK_REPLAY_DATE='2010-08-11'.*replay_date='2010-08-12'"),
        ({"DESK_BROKER": "alpaca-paper"}, r"DESK_BROKER='alpaca-paper'.*broker='paper'"),
        ({"AUTONOMOUS_CONFIG_JSON": '{"model": "big"}'}, r"model='big' \(from AUTONOMOUS_CONFIG_JSON\).*gpt-5.5"),
        ({"SCREENER_MAX_CANDIDATES": "8"}, r"SCREENER_MAX_CANDIDATES=8 \(from env.*max_candidates=20"),
        ({"DESK_MAX_ORDER_NOTIONAL": "5"}, r"DESK_MAX_ORDER_NOTIONAL=5.0.*max_order_notional=10000.0"),
        ({"DESK_ROLE_AGE_HOURS": "1"}, r"DESK_ROLE_AGE_HOURS=1.0.*role_age_hours=24.0"),
        ({"DESK_SPECULATE": "yes"}, r"DESK_SPECULATE=True.*speculate=False"),
        ({"DESK_EFFORT": "high"}, r"DESK_EFFORT='high'.*effort=None"),
        ({"TRADER_LIVE": "1"}, r"TRADER_LIVE=True \(from environment\).*trader_live=False"),
        # It could not be used beside the desk's turn_seconds either: the desk's value is what is named.
        ({"DESK_STEP_DEADLINE_SECONDS": "5"}, r"DESK_STEP_DEADLINE_SECONDS=5.0.*step_deadline_seconds=240.0"),
    ],
)
def test_a_terminal_that_contradicts_the_running_desk_is_refused(
    here: Path, up: Up, environ: dict[str, str], message: str
) -> None:
    up.leave(snapshot(of(here)))
    with pytest.raises(SettingError, match=message) as error:
        of(here, **environ)
    assert "leave these unset here, or stop `desk up`" in error.value.remedy


def test_a_resume_may_name_another_broker_and_nothing_else(here: Path, up: Up) -> None:
    up.leave(snapshot(of(here)))
    own = {"DESK_HOME": str(here / "home"), "DESK_BROKER": "alpaca-paper"}
    assert load_settings(own, here, but=("broker", "account")).account == "alpaca-paper"
    with pytest.raises(SettingError, match=r"DESK_MAX_ORDER_NOTIONAL=5.0.*max_order_notional=10000.0"):
        load_settings({**own, "DESK_MAX_ORDER_NOTIONAL": "5"}, here, but=("broker", "account"))


def test_the_endpoints_address_counts_without_its_login(here: Path, up: Up) -> None:
    endpoint = {"DESK_PROVIDER": "endpoint", "DESK_PROVIDER_URL": "https://user:hunter2@example.org/v1"}
    up.leave(snapshot(of(here, **endpoint)))
    with pytest.raises(SettingError, match=r"'https://other\.org/v1'.*'https://example\.org/v1'") as error:
        of(here, **{**endpoint, "DESK_PROVIDER_URL": "https://user:hunter2@other.org/v1"})
    assert "hunter2" not in str(error.value)


def test_a_process_has_settings_of_its_own_beside_the_running_desk(here: Path, up: Up) -> None:
    up.leave(snapshot(of(here)))
    assert of(here, DESK_LOG_LEVEL="ERROR", DESK_METRICS_PORT="1").log_level == "ERROR"
    lenses = "technical, fundamental,catalyst,options"
    assert of(here, SCREENER_MAX_CANDIDATES="20", DESK_LENSES=lenses, TRADER_LIVE="0") == of(here)


def test_the_live_switch_is_the_running_desks_but_not_for_what_sends_orders(here: Path, up: Up) -> None:
    up.leave(snapshot(of(here, TRADER_LIVE="1")))
    found = load({"DESK_HOME": str(here / "home")}, here)
    assert (found.settings.trader_live, found.origins["trader_live"].source) == (True, "desk up")
    assert load({"DESK_HOME": str(here / "home")}, here, own_switch=True).settings.trader_live is False
    with pytest.raises(SettingError, match=r"TRADER_LIVE=False.*trader_live=True"):
        of(here, TRADER_LIVE="0")


def test_a_halt_reads_what_it_can_and_names_the_rest(here: Path, up: Up) -> None:
    up.leave(snapshot(of(here)))
    wrong = {
        "DESK_MAX_ORDER_NOTIONAL": "much",
        "DESK_FOO": "1",
        "TRADER_LIVE": "true",
        "DESK_STEP_DEADLINE_SECONDS": "1",
    }
    environ = {"DESK_HOME": str(here / "home"), "DESK_LOG_LEVEL": "ERROR", "AUTONOMOUS_CONFIG_JSON": "{", **wrong}
    found, problems = load_for_halt(environ, here)
    assert (found.settings.home, found.settings.log_level) == (here / "home", "ERROR")
    assert (found.settings.max_order_notional, found.settings.trader_live) == (10_000, False)
    assert found.settings.step_deadline_seconds == 240
    assert all(any(name in problem for problem in problems) for name in (*wrong, "AUTONOMOUS_CONFIG_JSON"))
    other, problems = load_for_halt({"DESK_HOME": str(here / "home"), "DESK_BROKER": "alpaca-paper"}, here)
    assert (other.settings.broker, other.settings.account, problems) == ("alpaca-paper", "alpaca-paper", [])
    up.file.write_text("{")
    assert "services.json" in load_for_halt({"DESK_HOME": str(here / "home")}, here)[1][0]


@pytest.mark.parametrize("text", ["x", "[1]", "3"])
def test_an_invalid_pinned_list_is_named(here: Path, text: str) -> None:
    with pytest.raises(SettingError, match="DESK_PINNED holds no JSON object"):
        of(here, DESK_PINNED=text)
    assert load_for_halt({"DESK_HOME": str(here / "home"), "DESK_PINNED": text}, here)[1]


def test_every_setting_has_a_description() -> None:
    undescribed = [name for name, field in Settings.model_fields.items() if not field.description]
    assert undescribed == []
