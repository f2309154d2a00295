"""Secrets in files: each secret setting and each key can be one; a file that cannot be used is named."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import pytest
from pydantic import SecretStr

from chordesk.agents.role_models import PROVIDER_KEYS, missing_keys
from chordesk.models.errors import SettingError
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import BROKER_KEYS, BROKERS
from chordesk.models.settings.sources import load, load_for_halt, load_settings
from chordesk.models.settings.variables import SECRET_FILES, broker_keys, from_files, secret
from chordesk.tools.market.alpaca_chains import data_credentials
from tests.parts import HERE, needs

VALUES = {
    "provider_key": "sk-from-a-file-1",
    "api_token": "x7" * 20,
    "database_url": "postgresql+psycopg://desk:pw-from-file@db/desk",
    "redis_url": "rediss://desk:pw-from-file@redis:6379/0",
    "flower_auth": "desk:pw-from-file",
    "notify_channels": "ops=json://127.0.0.1:9/hook",
    "message_key": "y8" * 20,
    "sec_identity": "Ada Lovelace ada@example.org",
    **(
        {
            "messengers_telegram_token": "123456789:of-a-file-0123456789",
            "messengers_slack_bot_token": "xoxb-1234567890-of-a-file",
            "messengers_slack_app_token": "xapp-1-A0123456789-of-a-file",
        }
        if "messengers" in HERE
        else {}
    ),
}


def test_every_secret_setting_can_be_in_a_file(tmp_path: Path) -> None:
    assert set(SECRET_FILES.values()) == set(VALUES)
    assert not {f"DESK_{name.upper()}" for name in Settings.model_fields} & set(SECRET_FILES)
    environ = {"DESK_HOME": str(tmp_path / "home")}
    for variable, name in SECRET_FILES.items():
        (tmp_path / name).write_text(f"{VALUES[name]}\n", encoding="utf-8")
        environ[variable] = str(tmp_path / name)
    loaded = load(environ, tmp_path)
    found = {name: getattr(loaded.settings, name) for name in VALUES}
    assert all(isinstance(each, SecretStr) for each in found.values())
    assert {name: each.get_secret_value() for name, each in found.items()} == VALUES
    assert loaded.origins["api_token"].key == "DESK_API_TOKEN_FILE"


def test_a_dotenv_can_name_the_file_and_the_environment_wins(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-from-a-file-1", encoding="utf-8")
    (tmp_path / ".env").write_text(f"DESK_PROVIDER_KEY_FILE={tmp_path / 'key'}\n", encoding="utf-8")
    environ = {"DESK_HOME": str(tmp_path / "home")}
    assert load(environ, tmp_path).origins["provider_key"].source == ".env"
    found = load_settings({**environ, "DESK_PROVIDER_KEY": "sk-of-the-shell-2"}, tmp_path).provider_key
    assert found is not None
    assert found.get_secret_value() == "sk-of-the-shell-2"


@pytest.mark.parametrize(
    ("content", "why", "remedy"),
    [
        (None, "cannot be read: No such file", "let this process read it"),
        (b"", "is empty", "write the secret into it"),
        (b" \n\n", "is empty", "write the secret into it"),
        (b"one-secret\nanother-secret\n", "more than one line", "leave only the secret in it"),
        (b"\xff\xfe\x00", "is not text", "as one line"),
        (b"x" * 70_000, "more than one line", "as one line"),
    ],
)
@pytest.mark.parametrize("name", ["DESK_PROVIDER_KEY", "ALPACA_SECRET_KEY"])
def test_a_file_that_cannot_be_used_is_named(
    tmp_path: Path, name: str, content: bytes | None, why: str, remedy: str
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    environ = {"DESK_HOME": str(tmp_path / "home"), f"{name}_FILE": str(path)}
    with pytest.raises(SettingError) as raised:
        if name == "DESK_PROVIDER_KEY":
            load_settings(environ, tmp_path)
        else:
            broker_keys("alpaca-paper", {**environ, "ALPACA_API_KEY": "k"})
    shown = str(raised.value.args[0])
    assert f"{name}_FILE={path}" in shown
    assert why in shown
    assert "another-secret" not in shown
    assert remedy in raised.value.remedy
    assert f"unset {name}_FILE" in raised.value.remedy


def test_a_value_and_a_file_in_one_source_are_an_error(tmp_path: Path) -> None:
    environ = {"DESK_PROVIDER_KEY": "sk-one-thing-1", "DESK_PROVIDER_KEY_FILE": "/run/secrets/key"}
    with pytest.raises(SettingError, match="DESK_PROVIDER_KEY and DESK_PROVIDER_KEY_FILE are both set"):
        load_settings({"DESK_HOME": str(tmp_path), **environ}, tmp_path)
    with pytest.raises(SettingError, match="both set"):
        secret({"ALPACA_API_KEY": "a", "ALPACA_API_KEY_FILE": "b"}, "ALPACA_API_KEY")


def test_a_halt_goes_on_beside_such_a_file(tmp_path: Path) -> None:
    environ = {"DESK_HOME": str(tmp_path), "DESK_PROVIDER_KEY_FILE": str(tmp_path / "none")}
    loaded, problems = load_for_halt(environ, tmp_path)
    assert loaded.settings.provider_key is None
    assert [each for each in problems if "DESK_PROVIDER_KEY_FILE" in each] == problems != []


def test_the_keys_of_brokers_come_from_files(tmp_path: Path) -> None:
    environ = {}
    for name in (*BROKER_KEYS, *Settings.DATA_CREDENTIALS):
        (tmp_path / name).write_text(f"value-of-{name}\n", encoding="utf-8")
        environ[f"{name}_FILE"] = str(tmp_path / name)
    told = {name: value for broker in BROKERS for name, value in broker_keys(broker, environ).items()}
    assert told == {name: f"value-of-{name}" for name in BROKER_KEYS}
    assert astuple(data_credentials(environ)) == tuple(f"value-of-{name}" for name in Settings.DATA_CREDENTIALS)


def test_the_live_switch_does_not(tmp_path: Path) -> None:
    (tmp_path / "switch").write_text("1", encoding="utf-8")
    with pytest.raises(SettingError, match="TRADER_LIVE_FILE"):
        load_settings({"DESK_HOME": str(tmp_path), "TRADER_LIVE_FILE": str(tmp_path / "switch")}, tmp_path)


@needs("litellm")
def test_the_providers_keys_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-ant-12345678\n", encoding="utf-8")
    environ = {"ANTHROPIC_API_KEY_FILE": str(tmp_path / "key")}
    assert missing_keys("anthropic/claude", environ) == ()
    assert missing_keys("anthropic/claude", {}) == PROVIDER_KEYS["anthropic"]
    assert from_files(environ, PROVIDER_KEYS["anthropic"]) == {"ANTHROPIC_API_KEY": "sk-ant-12345678"}
