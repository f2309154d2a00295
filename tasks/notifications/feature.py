"""Notifications of people over the library apprise."""

from chordesk.models.features import Command, Feature, Program

FEATURE = Feature(
    name="notifications",
    aliases=("notify",),
    modules=(
        "chordesk.tasks.cli.notify",
        "chordesk.tasks.doctor.notifications",
        "chordesk.tasks.notifications",
    ),
    commands={
        "notify": Command(
            "chordesk.tasks.cli.notify", "Operate", "Notify people: send, test the channels, show what was sent."
        )
    },
    settings=("notify_channels",),
    checks=("chordesk.tasks.doctor.notifications:CHECK",),
    preflight=("chordesk.tasks.notifications.checking:preflight",),
    programs=(Program("notify", ("notify", "run"), "notifications of people", "notify_channels"),),
)
