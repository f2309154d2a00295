"""Settings: sources by strength, aliases, the live switch, and errors that name variable, value and remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chordesk.models.errors import SettingError
from chordesk.models.settings import ALIASES, LEAVING, LENSES, Settings
from chordesk.models.settings.schema import MARK
from chordesk.models.settings.sources import load, load_for_halt
from tests.models.settings.conftest import of


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
    given = '{"maxThreadTurns": 9, "trader": {"maxThreadTurns": 3}, "screener": {"threadTokens": 5}}'
    settings = of(here, AUTONOMOUS_CONFIG_JSON=given)
    assert (settings.max_thread_turns, settings.thread_limits) == (9, "trader=turns:3;screener=tokens:5")
    (here / "desk.toml").write_text("[screener]\nmaxThreadAgeHours = 1.5\nmax_thread_turns = 7\n")
    assert of(here).thread_limits == "screener=hours:1.5,turns:7"
    assert of(here, DESK_THREAD_LIMITS="trader=turns:8").thread_limits == "trader=turns:8"


def test_the_json_may_be_inline_or_a_file(here: Path) -> None:
    assert of(here, AUTONOMOUS_CONFIG_JSON='{"maxThreadTurns": 9}').max_thread_turns == 9
    path = here / "config.json"
    path.write_text(json.dumps({"max_thread_turns": 8, "AUTONOMOUS_STOCK_ONLY": False}))
    settings = of(here, AUTONOMOUS_CONFIG_JSON=str(path))
    assert (settings.max_thread_turns, settings.stock_only) == (8, False)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"DESK_PROVIDER": "gpt"}, r"DESK_PROVIDER='gpt' \(from environment\).*'codex', 'endpoint' or 'local'"),
        ({"SCREENER_MAX_CANDIDATES": "0"}, r"SCREENER_MAX_CANDIDATES='0'.*greater than or equal to 1"),
        ({"AUTONOMOUS_TRADER_OPTIONS_MODE": "x"}, r"AUTONOMOUS_TRADER_OPTIONS_MODE='x'.*'stocks-only'"),
        ({"DESK_LENSES": "technical,psychic"}, r"DESK_LENSES.*choose among technical"),
        ({"DESK_RESEARCH_ROLES": ","}, r"DESK_RESEARCH_ROLES=',' \(from environment\).*name at least one role"),
        ({"DESK_PREMARKET": "25:00"}, r"DESK_PREMARKET='25:00' \(from environment\): must be HH:MM, minutes from"),
        (
            {"DESK_TURN_SECONDS": "1500"},
            r"DESK_TURN_SECONDS='1500' \(from environment\), DESK_STEP_DEADLINE_SECONDS=1500.0 \(default\)",
        ),
        (
            {"AUTONOMOUS_CONFIG_JSON": '{"stepDeadlineSeconds": 15}'},
            r"DESK_TOOL_SECONDS=20.0 \(default\), stepDeadlineSeconds=15 \(from AUTONOMOUS_CONFIG_JSON\)",
        ),
        (
            {"DESK_PROVIDER": "endpoint"},
            r"needs a URL: DESK_PROVIDER='endpoint' \(from environment\), DESK_PROVIDER_URL is not set",
        ),
        (
            {"DESK_PROVIDER": "local", "DESK_PROVIDER_URL": "http://me:hunter2@localhost/v1", "DESK_PROVIDER_KEY": "k"},
            r"a login in the URL or a key, not both: DESK_PROVIDER_URL='http://\*+@localhost/v1'",
        ),
        ({"DESK_STARTING_CASH": "nan"}, r"DESK_STARTING_CASH='nan'"),
        ({"AUTONOMOUS_CONFIG_JSON": "{nonsense"}, r"AUTONOMOUS_CONFIG_JSON: neither a JSON object.*column 2"),
        ({"AUTONOMOUS_CONFIG_JSON": '{"trader": {"maxThreadTurns": 0}}'}, r"thread_limits='trader=turns:0' \(from A"),
        ({"AUTONOMOUS_CONFIG_JSON": '{"traders": {"maxThreadTurns": 1}}'}, r"traders .* is not a setting"),
        *(
            ({"DESK_THREAD_LIMITS": wrong}, r"DESK_THREAD_LIMITS=.*MODE=hours:H,turns:N.*screener, research, trader")
            for wrong in ("trader", "trader=turns:1.5", "bond=turns:1", "trader=turns:1;trader=hours:2", "trader=age:1")
        ),
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
        ("DESK_PROVIDER_URL", "https://user:hunter2@example.org:port/v1", "names a host"),
        ("DESK_PROVIDER_URL", "hunter2", "begins with http:// or https://"),
        ("DESK_REDIS_URL", "http://:hunter2@127.0.0.1:6379", "redis://, rediss:// or unix://"),
        ("DESK_DATABASE_URL", "mysql://desk:hunter2@127.0.0.1/desk", "sqlite:///PATH or postgresql+psycopg://"),
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


@pytest.mark.parametrize("text", ["x", "[1]", "3"])
def test_an_invalid_pinned_list_is_named(here: Path, text: str) -> None:
    with pytest.raises(SettingError, match="DESK_PINNED holds no JSON object"):
        of(here, DESK_PINNED=text)
    assert load_for_halt({"DESK_HOME": str(here / "home"), "DESK_PINNED": text}, here)[1]


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_has_a_description_an_owner_and_an_example_that_loads(here: Path, name: str) -> None:
    field = Settings.model_fields[name]
    (example,) = field.examples or ()
    assert field.description
    assert dict(field.json_schema_extra or {}).keys() == {MARK}
    (here / "home").mkdir()
    settings = of(here, **{Settings.LIVE_SWITCH if name == "trader_live" else f"DESK_{name.upper()}": example})
    assert getattr(settings, name) != field.get_default(call_default_factory=True)


def test_features_are_switched_off_in_the_environment_alone(here: Path) -> None:
    (here / ".env").write_text("DESK_FEATURES_OFF=board\n")
    with pytest.raises(SettingError, match=r"DESK_FEATURES_OFF \(from .env\) has no effect there"):
        of(here)


def test_a_setting_that_goes_with_the_next_version_works_and_is_named_where_it_is_given(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LEAVING, "max_candidates", "write DESK_MOST")
    given = load({"DESK_HOME": str(here), "SCREENER_MAX_CANDIDATES": "7"}, here)
    assert given.settings.max_candidates == 7
    assert given.warnings == (
        "SCREENER_MAX_CANDIDATES (from environment) goes with the next minor version: write DESK_MOST",
    )
    assert load({"DESK_HOME": str(here)}, here).warnings == ()
