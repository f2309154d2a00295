"""What measures the desk: backtests, experiments and public benchmarks, the mask of a run, and cassettes of models'
answers."""

from chordesk.models.features import Command, Feature, Market, Shown, View

_TASKS = "chordesk.tasks.measure"
FEATURE = Feature(
    name="measure",
    aliases=("backtests", "benchmarks", "cassettes", "experiments", "masks"),
    uses=("board", "samples"),
    modules=(
        "chordesk.agents.measure",
        "chordesk.tasks.measure",
        "chordesk.tools.measure",
    ),
    workflows=(f"{_TASKS}.backtest:WORKFLOWS",),
    kinds=("backtest", "backtest_trade", "backtest_session", "backtest_result"),
    commands={
        "backtest": Command(f"{_TASKS}.backtest_command", "Run", "Let the whole desk play past sessions."),
        "experiment": Command(f"{_TASKS}.experiment_command", "Run", "Compare settings of the desk on one history."),
        "cassette": Command(
            f"{_TASKS}.cassette_command",
            "Measure",
            "Models' answers that are kept, to play runs again without a model.",
        ),
        "benchmark": Command(f"{_TASKS}.benchmark_command", "Measure", "Measure the desk on a public benchmark."),
    },
    shown={
        "backtest": Shown(
            f"{_TASKS}.run_view:backtest_view",
            "run",
            text=f"{_TASKS}.run_display:backtest_report",
            missing=f"{_TASKS}.run_view:missing",
            template=f"{_TASKS}:backtest",
            page="of/measure/backtest:BacktestPart",
            kinds=("backtest",),
        )
    },
    subcommands={"runs": (f"{_TASKS}.leaks_command",)},
    documents=(
        "backtest.md",
        "benchmarks.md",
    ),
    settings=("cassettes", "mask"),
    routes=(f"{_TASKS}.routes:router",),
    pages=(_TASKS,),
    views=(
        View("/experiments", "Experiments", "of/measure/experiments", key="x"),
        View("/experiments/:experiment", "Experiment", "of/measure/experiments"),
    ),
    markets={"calendar": Market("chordesk.tools.measure.benchmarks.calendar", replays=True)},
    wraps=("chordesk.agents.measure.mask.runtime:MaskWrap", "chordesk.agents.measure.cassettes:CassetteWrap"),
    benchmarks={
        "forecastbench": "chordesk.tools.measure.benchmarks.forecastbench:BENCHMARK",
        "trades": "chordesk.tools.measure.benchmarks.trades:BENCHMARK",
        "stockbench": "chordesk.tools.measure.benchmarks.stockbench:BENCHMARK",
    },
)
