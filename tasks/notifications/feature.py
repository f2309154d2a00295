"""Notifications of people over the library apprise."""

from chordesk.models.features import Command, Feature, Program, Shown

FEATURE = Feature(
    name="notifications",
    aliases=("notify",),
    modules=("chordesk.tasks.notifications",),
    commands={
        "notify": Command(
            "chordesk.tasks.notifications.commands",
            "Operate",
            "Notify people: send, test the channels, show what was sent.",
        )
    },
    shown={
        "notifications": Shown(
            "chordesk.tasks.notifications.outbox:part_of_status",
            "status",
            text="chordesk.tasks.notifications.commands:status_lines",
        )
    },
    documents=("notifications.md",),
    settings=("notify_channels", "notify_kinds", "notify_quiet", "notify_zone", "notify_page_url"),
    checks=("chordesk.tasks.notifications.doctor_check:CHECK",),
    preflight=("chordesk.tasks.notifications.channel_checks:preflight",),
    programs=(Program("notify", ("notify", "run"), "notifications of people", "notify_channels", messengers=True),),
)
