"""Public benchmarks, measured on a user's own copy of their data."""

from chordesk.models.features import Command, Feature, Market

FEATURE = Feature(
    name="benchmarks",
    commands={
        "benchmark": Command("chordesk.tasks.cli.benchmark", "Measure", "Measure the desk on a public benchmark.")
    },
    markets={"calendar": Market("chordesk.tools.benchmarks.calendar", replays=True)},
    benchmarks={
        "forecastbench": "chordesk.tools.benchmarks.forecastbench:BENCHMARK",
        "trades": "chordesk.tools.benchmarks.trades:BENCHMARK",
        "stockbench": "chordesk.tools.benchmarks.stockbench:BENCHMARK",
    },
)
