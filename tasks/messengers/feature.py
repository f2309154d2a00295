"""Messengers: people ask, approve and halt from a phone, in private chats that were paired from a terminal."""

from chordesk.models.features import Command, Feature, Keep, Messenger

_TASKS = "chordesk.tasks.messengers"
FEATURE = Feature(
    name="messengers",
    aliases=("chat",),
    modules=("chordesk.models.messengers", _TASKS),
    uses=("notifications",),
    commands={"chat": Command(f"{_TASKS}.commands", "Operate", "People who ask and answer from a messenger.")},
    messengers={
        "telegram": Messenger("messengers_telegram_token", f"{_TASKS}.telegram:build", "Telegram"),
        "slack": Messenger(
            "messengers_slack_bot_token",
            f"{_TASKS}.slack:build",
            "Slack",
            more=("messengers_slack_app_token",),
            sign="",
        ),
    },
    checks=(f"{_TASKS}.doctor_check:CHECK",),
    documents=("chat.md",),
    settings_schema="chordesk.models.messengers.settings:MessengersSettings",
    tables=("chordesk.models.messengers.tables",),
    migrations="chordesk.models.messengers.migrations",
    keeps={
        "messengers_update": Keep(at="at", days=30),
        "messengers_code": Keep(at="created_at", days=30),
        "messengers_button": Keep(at="created_at", days=30),
        "messengers_message": Keep(at="created_at", days=31),
    },
)
