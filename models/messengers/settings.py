"""The settings DESK_MESSENGERS_..."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, SecretStr

from chordesk.models.settings.schema import of_process
from chordesk.models.urls import is_loopback, require_http

_TOKEN = re.compile(r"\d{3,20}:[A-Za-z0-9_-]{20,100}")


def _token(value: SecretStr) -> SecretStr:
    if not _TOKEN.fullmatch(value.get_secret_value()):
        raise ValueError("is not the token of a bot: BotFather gives it as NUMBER:LETTERS")
    return value


def _api(value: str) -> str:
    from urllib.parse import urlsplit

    found = urlsplit(require_http(value))
    if found.scheme != "https" and not is_loopback(found.hostname or ""):
        raise ValueError("must begin with https://, or name this machine: the bot's token is in each address")
    return value.rstrip("/")


def _of_slack(kind: str) -> Callable[[SecretStr], SecretStr]:
    """Return a check of a token of Slack that begins with `kind`."""

    def checked(value: SecretStr) -> SecretStr:
        if not re.fullmatch(rf"{kind}-[A-Za-z0-9-]{{10,300}}", value.get_secret_value()):
            raise ValueError(f"is not such a token of a Slack app: it begins with {kind}-")
        return value

    return checked


class MessengersSettings(BaseModel):
    telegram_token: Annotated[SecretStr, AfterValidator(_token)] | None = of_process(
        None,
        "token of the desk's own Telegram bot; no process but the bot's has it",
        "123456789:AAbot-token-of-your-own",
    )
    telegram_api: Annotated[str, AfterValidator(_api)] = of_process(
        "https://api.telegram.org", "the Bot API: https, or a server on this machine", "http://127.0.0.1:8081"
    )
    slack_bot_token: Annotated[SecretStr, AfterValidator(_of_slack("xoxb"))] | None = of_process(
        None,
        "token of your own Slack app's bot; no process but the bot's has it",
        "xoxb-1234567890-bot-token-of-your-own",
    )
    slack_app_token: Annotated[SecretStr, AfterValidator(_of_slack("xapp"))] | None = of_process(
        None,
        "token of the same Slack app, with which it opens its socket",
        "xapp-1-A0123456789-app-token-of-your-own",
    )
    slack_api: Annotated[str, AfterValidator(_api)] = of_process(
        "https://slack.com/api", "Slack's Web API: https, or a server on this machine", "http://127.0.0.1:8082"
    )
    confirm: Literal["real", "always", "never"] = of_process(
        "real", "orders whose approval needs a second press: of real money, all, none", "always"
    )
