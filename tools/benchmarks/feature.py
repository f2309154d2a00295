"""Public benchmarks, measured on a user's own copy of their data."""

from chordesk.models.features import Command, Feature

FEATURE = Feature(
    name="benchmarks",
    commands={
        "benchmark": Command("chordesk.tasks.cli.benchmark", "Measure", "Measure the desk on a public benchmark.")
    },
    benchmarks={
        "forecastbench": "chordesk.tools.benchmarks.forecastbench:BENCHMARK",
        "stockbench": "chordesk.tools.benchmarks.stockbench:BENCHMARK",
    },
)
