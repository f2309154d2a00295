"""The forecasting board with its venues: questions, signals, voices and scores."""

from chordesk.models.features import Command, Feature, Shown, View

_TASKS = "chordesk.tasks.board"
FEATURE = Feature(
    name="board",
    modules=(
        "chordesk.agents.board",
        "chordesk.models.board",
        "chordesk.tasks.board",
        "chordesk.tools.board",
    ),
    roles=("chordesk.agents.board.voice_roles:ROLES",),
    workflows=(f"{_TASKS}.episode:WORKFLOWS",),
    kinds=("episode", "brief", "harvest", "board", "voice", "round", "tally"),
    commands={
        "episode": Command(f"{_TASKS}.commands", "Run", "Let the voices forecast questions by all tools' signals."),
        "board": Command(f"{_TASKS}.commands", "Look", "Show a run's board: questions, forecasts, voices, tally."),
        "questions": Command(
            f"{_TASKS}.question_commands", "Look", "Questions that resolve: the desk's, people's, markets'."
        ),
        "scores": Command(f"{_TASKS}.commands", "Measure", "Score voices, tools, lenses, roles, verdicts and theses."),
        "calibrate": Command(f"{_TASKS}.commands", "Measure", "Turn verdicts into the probability that they turn out."),
    },
    turn_counts={"screen": ("chordesk.agents.board.voices:turns_of_screen",)},
    brief=(f"{_TASKS}.episode.rounds:brief_of_trader",),
    shown={
        "episode": Shown(f"{_TASKS}.board_view:tally_of", "run", text=f"{_TASKS}.board_display:tally_report"),
        "voices": Shown(
            f"{_TASKS}.board_view:voices_of_run",
            text=f"{_TASKS}.board_display:voices_report",
            missing=f"{_TASKS}.board_view:left_out",
            page="of/board/board:BoardPart",
            kinds=("episode",),
        ),
        "board": Shown(f"{_TASKS}.board_view:board_or_none", "report", template=f"{_TASKS}:board"),
    },
    lineage=(f"{_TASKS}.board_view:lineage",),
    options={
        "backtest": (f"{_TASKS}.command_options:rounds",),
        "experiment": (f"{_TASKS}.command_options:rounds",),
        "stop": (f"{_TASKS}.command_options:stop_voice",),
    },
    policies=("chordesk.agents.board.policies",),
    event_kinds={
        "artifact.written": "payload.id, kind, digest, run, number: code wrote an episode's content",
    },
    documents=(
        "board.md",
        "event-markets.md",
    ),
    settings=("episode", "rounds", "voices", "questions", "voice_compute", "voice_models", "venues"),
    requires=("chordesk.agents.board.voices:voices_of",),
    checks=("chordesk.tasks.board.checks:VENUES_CHECK",),
    routes=(f"{_TASKS}.routes:scores_router", f"{_TASKS}.routes:router", f"{_TASKS}.routes:questions_router"),
    pages=(_TASKS,),
    views=(
        View("/scores", "Record", "of/board/record", menu=True, key="b"),
        View("/scores/:kind/:name", "Score", "of/board/record"),
        View("/questions/:question", "Question", "of/board/record", part="QuestionView"),
    ),
)
