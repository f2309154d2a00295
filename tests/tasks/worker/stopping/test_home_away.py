"""A data folder that is moved away under a desk at work: steps wait, nothing is made at the old path, and no model is
asked again when it is back."""

from __future__ import annotations

from chordesk.models.states import RunState
from tests.stack import wait_for
from tests.tasks.worker.stopping.stop_kit import attempts, desk, research, wait_ended, wait_in_flight


def test_turns_of_a_moved_home_are_kept_until_it_is_back() -> None:
    with desk("research", "ops") as made:
        home = made.processes.home
        moved = home.with_name(f"{home.name}-moved")
        run_id = research(made)
        wait_in_flight(made, run_id)
        home.rename(moved)
        try:
            made.model.let(1000)  # what was asked is answered while the home is away
            wait_for(lambda: not made.model.waiting, "the answers are taken", 60)
            log = moved / "research.log"
            wait_for(lambda: "home.away" in log.read_text(), "the log says that the home is away", 60)
            assert not home.exists()
        finally:
            home.mkdir(exist_ok=True)
            home.rmdir()  # fails where something was made in it
            moved.rename(home)
        assert wait_ended(made, run_id, 120).state == RunState.DONE
        assert set(attempts(made, run_id)) == {"done"}
        assert set(made.model.begun.values()) == {1}
