"""Sample data, and the demo that plays on them."""

from chordesk.models.features import Command, Feature

FEATURE = Feature(
    name="samples",
    commands={
        "demo": Command(
            "chordesk.tasks.cli.demo",
            "Run",
            "Screen the S&P 500 on real prices, research, decide, analyse three, hold a round of voices; then stop "
            "everything.",
        )
    },
)
