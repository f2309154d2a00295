"""The forecasting board with its venues: questions, signals, voices and scores."""

from chordesk.models.features import Command, Feature, View

_CLI, _ROUTES = "chordesk.tasks.cli", "chordesk.tasks.board.routes"
FEATURE = Feature(
    name="board",
    modules=(
        "chordesk.agents.board",
        "chordesk.agents.board.policies",
        "chordesk.tasks.board.commands",
        "chordesk.tasks.board.command_options",
        "chordesk.tasks.board.question_commands",
        "chordesk.tasks.board.question_display",
        "chordesk.tasks.board.board_view",
        "chordesk.tasks.board.routes",
        "chordesk.tasks.board.episode",
        "chordesk.tools.board",
        "chordesk.tools.board.event_positions",
        "chordesk.tools.board.question_files",
        "chordesk.tools.board.venue_questions",
        "chordesk.tools.board.venues",
    ),
    roles=("chordesk.agents.board.roles:ROLES",),
    workflows=("chordesk.tasks.board.episode:WORKFLOWS",),
    commands={
        "episode": Command(f"{_CLI}.board", "Run", "Let the voices forecast questions by all tools' signals."),
        "board": Command(f"{_CLI}.board", "Look", "Show a run's board: questions, forecasts, voices, tally."),
        "questions": Command(f"{_CLI}.questions", "Look", "Questions that resolve: the desk's, people's, markets'."),
        "scores": Command(f"{_CLI}.board", "Measure", "Score voices, tools, lenses, roles, verdicts and theses."),
        "calibrate": Command(f"{_CLI}.board", "Measure", "Turn verdicts into the probability that they turn out."),
    },
    turn_counts={"screen": ("chordesk.agents.board.voices:turns_of_screen",)},
    brief=("chordesk.tasks.board.episode.rounds:brief_of_trader",),
    options={
        "backtest": (f"{_CLI}.board_options:rounds",),
        "experiment": (f"{_CLI}.board_options:rounds",),
        "stop": (f"{_CLI}.board_options:stop_voice",),
    },
    policies=("chordesk.agents.board.policies",),
    settings=("episode", "rounds", "voices", "voice_models", "venues"),
    requires=("chordesk.agents.board.voices:voices_of",),
    checks=("chordesk.tasks.doctor.machine:VENUES_CHECK",),
    routes=(f"{_ROUTES}:scores_router", f"{_ROUTES}:router", f"{_ROUTES}:questions_router"),
    views=(
        View("/scores", "Record", "views/record", menu=True, key="b"),
        View("/scores/:kind/:name", "Score", "views/record"),
        View("/questions/:question", "Question", "views/record", part="QuestionView"),
    ),
)
