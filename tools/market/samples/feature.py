"""Sample data, and the demo that plays on them."""

from chordesk.models.features import Command, Feature

FEATURE = Feature(
    name="samples",
    aliases=("demo",),
    uses=("board",),
    modules=(
        "chordesk.tasks.cli.data_import",
        "chordesk.tasks.cli.demo",
        "chordesk.tasks.services.demo",
        "chordesk.tools.market.samples",
    ),
    commands={
        "demo": Command("chordesk.tasks.cli.demo", "Run", "Show the whole desk at work on real prices, then stop it.")
    },
    subcommands={"data": ("chordesk.tasks.cli.data_import",)},
)
