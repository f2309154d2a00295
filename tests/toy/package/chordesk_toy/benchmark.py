"""A benchmark: one description, one importer, one table of published rows."""

from pathlib import Path

from chordesk.plugins import Benchmark, Given, Measured, Row, UsageError

PUBLISHED = (Row("A person", {"right": 0.9}, "a paper, 2026"),)


def measure(folder: Path, given: Given) -> Measured:
    """The folder has `answers.csv`: right or wrong, a line each."""
    if not (file := folder / "answers.csv").is_file():
        raise UsageError(f"{folder} has no answers.csv", remedy="name the folder that has it")
    answers = file.read_text().split()
    return Measured([Row("the desk", {"right": answers.count("right") / len(answers)})])


BENCHMARK = Benchmark("Toys told apart.", {"right": ".0%"}, PUBLISHED, measure)
