"""Settings: sources by strength, aliases, the live switch, and errors that name variable, value and remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.errors import SettingError
from models.setting_sources import load, load_settings
from models.settings import ALIASES, LENSES, Settings


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path


def of(here: Path, **environ: str) -> Settings:
    return load_settings({"DESK_HOME": str(here / "home"), **environ}, here)


def test_a_fresh_configuration_speaks_by_rules_replays_and_cannot_trade_live(here: Path) -> None:
    settings = of(here)
    assert (settings.provider, settings.market, settings.broker, settings.account) == (
        "rulebook",
        "replay",
        "paper",
        "paper",
    )
    assert settings.trader_live is False
    assert settings.lenses == LENSES
    assert "rule" in settings.spoken_by
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


@pytest.mark.parametrize(
    ("value", "live"), [("1", True), ("true", False), ("01", False), ("", False), (" 1", False), ("yes", False)]
)
def test_live_trading_is_on_only_when_exactly_1(here: Path, value: str, live: bool) -> None:
    assert of(here, TRADER_LIVE=value).trader_live is live


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


def test_the_json_may_be_inline_or_a_file(here: Path) -> None:
    assert of(here, AUTONOMOUS_CONFIG_JSON='{"maxThreadTurns": 9}').max_thread_turns == 9
    path = here / "config.json"
    path.write_text(json.dumps({"max_thread_turns": 8, "AUTONOMOUS_STOCK_ONLY": False}))
    settings = of(here, AUTONOMOUS_CONFIG_JSON=str(path))
    assert (settings.max_thread_turns, settings.stock_only) == (8, False)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"DESK_PROVIDER": "gpt"}, r"DESK_PROVIDER='gpt' \(from environment\).*'rulebook', 'codex' or 'endpoint'"),
        ({"SCREENER_MAX_CANDIDATES": "0"}, r"SCREENER_MAX_CANDIDATES='0'.*greater than or equal to 1"),
        ({"AUTONOMOUS_TRADER_OPTIONS_MODE": "x"}, r"AUTONOMOUS_TRADER_OPTIONS_MODE='x'.*'stocks-only'"),
        ({"DESK_MODLE": "x"}, r"DESK_MODLE \(from environment\) is not a setting"),
        ({"DESK_LENSES": "technical,psychic"}, r"DESK_LENSES.*'technical'"),
        ({"DESK_LENSES": ","}, r"DESK_LENSES.*technical, fundamental, catalyst, options"),
        ({"DESK_PREMARKET": "25:00"}, r"DESK_PREMARKET='25:00'"),
        ({"DESK_REPLAY_DATE": "soon"}, r"DESK_REPLAY_DATE='soon'"),
        ({"DESK_TURN_SECONDS": "240"}, r"turn_seconds=240.0 must be shorter than step_deadline_seconds=240.0"),
        ({"DESK_PROVIDER": "endpoint"}, r"DESK_PROVIDER_URL"),
        ({"DESK_STARTING_CASH": "nan"}, r"DESK_STARTING_CASH='nan'"),
        ({"AUTONOMOUS_CONFIG_JSON": "{nonsense"}, r"AUTONOMOUS_CONFIG_JSON: neither JSON.*column 2"),
        ({"AUTONOMOUS_CONFIG_JSON": "[1]"}, r"AUTONOMOUS_CONFIG_JSON"),
        ({"DESK_CONFIG": "/does/not/exist.toml"}, r"DESK_CONFIG='/does/not/exist.toml': no such file"),
    ],
)
def test_a_wrong_value_is_named_with_its_variable_and_what_is_allowed(
    here: Path, environ: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingError, match=said):
        of(here, **environ)


def test_a_wrong_secret_is_not_printed(here: Path) -> None:
    with pytest.raises(SettingError) as error:
        load({"DESK_HOME": str(here), "AUTONOMOUS_CONFIG_JSON": json.dumps({"provider_key": ["hunter2"]})}, here)
    assert "hunter2" not in str(error.value)
    for environ in ({"DESK_PROVIDER_KEYX": "hunter2"}, {"AUTONOMOUS_CONFIG_JSON": '{"provider_key": "hunter2", x}'}):
        with pytest.raises(SettingError) as slip:
            load({"DESK_HOME": str(here), **environ}, here)
        assert "hunter2" not in str(slip.value)


def test_running_services_are_the_weakest_source(here: Path) -> None:
    services = here / "home" / "run" / "services.json"
    services.parent.mkdir(parents=True)
    services.write_text(
        json.dumps({"redis_url": "unix:///here.sock", "rulebook_url": "http://127.0.0.1:1/v1", "pid": 3})
    )
    settings = of(here)
    assert settings.redis_url is not None
    assert settings.redis_url.get_secret_value() == "unix:///here.sock"
    assert of(here, DESK_REDIS_URL="redis://other").redis_url != settings.redis_url
    services.write_text("{")
    with pytest.raises(SettingError, match=r"services\.json"):
        of(here)


def test_every_setting_says_what_it_is() -> None:
    undescribed = [name for name, field in Settings.model_fields.items() if not field.description]
    assert undescribed == []
