"""Sample data, and the demo that plays on them."""

from chordesk.models.features import Command, Feature

FEATURE = Feature(
    name="samples",
    commands={
        "demo": Command("chordesk.tasks.cli.demo", "Run", "Show the whole desk at work on real prices, then stop it.")
    },
)
