"""The forecasting board with its venues: questions, signals, voices and scores."""

from chordesk.models.features import Command, Feature

_CLI, _ROUTES = "chordesk.tasks.cli", "chordesk.tasks.web.routes.board"
FEATURE = Feature(
    name="board",
    roles=("chordesk.agents.board.roles:ROLES",),
    workflows=("chordesk.tasks.workflows.episode:WORKFLOWS",),
    commands={
        "episode": Command(
            f"{_CLI}.board",
            "Run",
            "Hold an episode: harvest every tool's signals, let the voices forecast questions by them, and tally.",
        ),
        "board": Command(
            f"{_CLI}.board",
            "Look",
            "Show a run's board: signals, questions, forecasts with their citations, voices, and the tally.",
        ),
        "questions": Command(
            f"{_CLI}.questions", "Look", "Questions that resolve: the desk's own, a person's, event markets'."
        ),
        "scores": Command(
            f"{_CLI}.scores",
            "Measure",
            "Show the scores of voices, tools, lenses, roles and verdicts over resolved questions.",
        ),
        "calibrate": Command(
            f"{_CLI}.scores",
            "Measure",
            "Map verdicts' rating and confidence to the probability that they turned out to have, where there is "
            "enough.",
        ),
    },
    settings=("episode", "rounds", "voices", "voice_models", "venues", "funding"),
    requires=("chordesk.agents.board.voices:voices_of",),
    checks=("chordesk.tasks.doctor.machine:VENUES_CHECK",),
    routes=(f"{_ROUTES}:scores_router", f"{_ROUTES}:router", f"{_ROUTES}:questions_router"),
)
