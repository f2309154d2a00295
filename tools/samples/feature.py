"""Sample data, and the demo that plays on them."""

from chordesk.models.features import Command, Feature

FEATURE = Feature(
    name="samples",
    aliases=("demo",),
    uses=("board",),
    modules=(
        "chordesk.tasks.samples",
        "chordesk.tools.samples",
    ),
    commands={
        "demo": Command(
            "chordesk.tasks.samples.demo_command", "Run", "Show the whole desk at work on real prices, then stop it."
        )
    },
    subcommands={"data": ("chordesk.tasks.samples.import_command",)},
)
