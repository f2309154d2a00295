"""What measures the desk: backtests, experiments and public benchmarks, the mask of a run, and cassettes of models'
answers."""

from chordesk.models.features import Command, Feature, Market, View

_CLI = "chordesk.tasks.cli"
FEATURE = Feature(
    name="measure",
    aliases=("backtests", "benchmarks", "cassettes", "experiments", "masks"),
    uses=("board", "samples"),
    modules=(
        "chordesk.agents.cassettes",
        "chordesk.agents.mask",
        "chordesk.tasks.cassettes",
        "chordesk.tasks.cli.backtest",
        "chordesk.tasks.cli.benchmark",
        "chordesk.tasks.cli.cassette",
        "chordesk.tasks.cli.experiment",
        "chordesk.tasks.cli.leaks",
        "chordesk.tasks.reading.experiments",
        "chordesk.tasks.reading.leaks",
        "chordesk.tasks.web.routes.experiments",
        "chordesk.tasks.worker.playing",
        "chordesk.tasks.workflows.backtest",
        "chordesk.tasks.workflows.backtest_sessions",
        "chordesk.tools.backtest_performance",
        "chordesk.tools.backtests",
        "chordesk.tools.benchmarks",
        "chordesk.tools.measure",
        "chordesk.tools.scoring.experiments",
    ),
    workflows=("chordesk.tasks.workflows.backtest:WORKFLOWS",),
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
    routes=("chordesk.tasks.web.routes.experiments:router",),
    views=(
        View("/experiments", "Experiments", "views/experiments", key="x"),
        View("/experiments/:experiment", "Experiment", "views/experiments"),
    ),
    markets={"calendar": Market("chordesk.tools.benchmarks.calendar", replays=True)},
    wraps=("chordesk.agents.mask.runtime:MaskWrap", "chordesk.agents.cassettes:CassetteWrap"),
    benchmarks={
        "forecastbench": "chordesk.tools.benchmarks.forecastbench:BENCHMARK",
        "trades": "chordesk.tools.benchmarks.trades:BENCHMARK",
        "stockbench": "chordesk.tools.benchmarks.stockbench:BENCHMARK",
    },
)
