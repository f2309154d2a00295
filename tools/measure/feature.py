"""What measures the desk: backtests, experiments and public benchmarks, the mask of a run, and cassettes of models'
answers."""

from chordesk.models.features import Command, Feature, Market, View

_CLI = "chordesk.tasks.cli"
FEATURE = Feature(
    name="measure",
    aliases=("backtests", "benchmarks", "cassettes", "experiments", "masks"),
    uses=("board", "samples"),
    modules=(
        "chordesk.agents.measure.cassettes",
        "chordesk.agents.measure.mask",
        "chordesk.tasks.measure.cassette_files",
        "chordesk.tasks.measure.backtest_command",
        "chordesk.tasks.measure.benchmark_command",
        "chordesk.tasks.measure.cassette_command",
        "chordesk.tasks.measure.experiment_command",
        "chordesk.tasks.measure.leaks_command",
        "chordesk.tasks.measure.experiment_view",
        "chordesk.tasks.measure.leaks",
        "chordesk.tasks.measure.routes",
        "chordesk.tasks.measure.playing",
        "chordesk.tasks.measure.backtest",
        "chordesk.tasks.measure.backtest_sessions",
        "chordesk.tools.measure.backtest_performance",
        "chordesk.tools.measure.backtests",
        "chordesk.tools.measure.benchmarks",
        "chordesk.tools.measure",
        "chordesk.tools.measure.experiments",
    ),
    workflows=("chordesk.tasks.measure.backtest:WORKFLOWS",),
    commands={
        "backtest": Command(f"{_CLI}.backtest", "Run", "Let the whole desk play past sessions."),
        "experiment": Command(f"{_CLI}.experiment", "Run", "Compare settings of the desk on one history."),
        "cassette": Command(
            f"{_CLI}.cassette", "Measure", "Models' answers that are kept, to play runs again without a model."
        ),
        "benchmark": Command(f"{_CLI}.benchmark", "Measure", "Measure the desk on a public benchmark."),
    },
    subcommands={"runs": (f"{_CLI}.leaks",)},
    settings=("cassettes", "mask"),
    routes=("chordesk.tasks.measure.routes:router",),
    views=(
        View("/experiments", "Experiments", "views/experiments", key="x"),
        View("/experiments/:experiment", "Experiment", "views/experiments"),
    ),
    markets={"calendar": Market("chordesk.tools.measure.benchmarks.calendar", replays=True)},
    wraps=("chordesk.agents.measure.mask.runtime:MaskWrap", "chordesk.agents.measure.cassettes:CassetteWrap"),
    benchmarks={
        "forecastbench": "chordesk.tools.measure.benchmarks.forecastbench:BENCHMARK",
        "trades": "chordesk.tools.measure.benchmarks.trades:BENCHMARK",
        "stockbench": "chordesk.tools.measure.benchmarks.stockbench:BENCHMARK",
    },
)
