"""The episode: what is due is resolved, tools post their signals, voices forecast in rounds, and code tallies."""

from agents.board.voices import voices_of
from models.states import RunKind, StepKind
from tasks.engine import kinds
from tasks.engine.kinds import StepSpec, Workflow
from tasks.workflows.episode.briefing import brief
from tasks.workflows.episode.harvesting import harvest
from tasks.workflows.episode.opening import open_scheduled
from tasks.workflows.episode.rounds import end_round, start_rounds
from tasks.workflows.episode.tally import tally
from tasks.workflows.episode.voicing import run_voice

kinds.register(
    Workflow(
        RunKind.EPISODE,
        "research",
        (
            StepSpec(StepKind.BRIEF, "ops", brief, "research", opens=open_scheduled, spine=True, join=True),
            StepSpec(
                *(StepKind.HARVEST, "screen", harvest, "research", "harvest"), fan_out="chord", body=StepKind.BOARD
            ),
            StepSpec(StepKind.BOARD, "ops", start_rounds, "research", join=True),
            StepSpec(
                *(StepKind.VOICE, "research", run_voice, "research", "voices"),
                turn=True,
                fan_out="chord",
                body=StepKind.ROUND,
            ),
            StepSpec(StepKind.ROUND, "ops", end_round, "research", join=True),
            StepSpec(StepKind.TALLY, "ops", tally, "research", "tally", join=True),
        ),
        turns=lambda params, settings, _held: dict.fromkeys(
            (voice.role for voice in voices_of(settings)), params["rounds"]
        ),
    )
)
