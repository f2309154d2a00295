"""Files of lenses: what stands in them, their version, and one line for each fault."""

from __future__ import annotations

import pytest

from chordesk.models.errors import UsageError
from chordesk.tools.lenses.files import MOST_WORDS, read_lens

TOOLS = frozenset({"signals_get", "news_list"})
WHOLE = """+++
purpose = "calm payers"
universe = "sectors: Utilities, Energy"
tools = ["signals_get"]
hits = 4
by = "both"
where = "momentum60 > 0.05 and rsi14 < 65"
score = "rank(momentum60) + rank(-volatility20)"
high = "score > 1.6 and gap > 0"
figures = ["dividendYield"]
+++

Utilities that pay and rise calmly.
"""


def test_a_file_says_what_a_lens_looks_at_and_how() -> None:
    lens = read_lens("calm-payers", WHOLE, TOOLS)
    assert (lens.purpose, lens.sectors, lens.tools) == ("calm payers", ("Utilities", "Energy"), ("signals_get",))
    assert (lens.hits, lens.by, lens.words) == (4, "both", "Utilities that pay and rise calmly.")
    assert lens.used == ("momentum60", "rsi14", "volatility20", "gap", "dividendYield")
    assert lens.title == f"calm-payers@{lens.version}"


def test_words_alone_are_a_lens_of_a_model_and_a_rule_beside_them_one_of_both() -> None:
    assert (read_lens("plain", "Utilities that pay.").by, read_lens("plain", "Words.").purpose) == ("model", "plain")
    assert read_lens("ruled", "+++\nwhere = 'gap > 0'\n+++\nWords.").by == "both"


def test_the_version_is_of_the_text_not_of_how_an_editor_ends_lines() -> None:
    windows = "\ufeff" + WHOLE.replace("\n", "\r\n")
    assert read_lens("calm", windows, TOOLS).version == read_lens("calm", WHOLE, TOOLS).version
    assert read_lens("calm", WHOLE + "More.", TOOLS).version != read_lens("calm", WHOLE, TOOLS).version


def front(*lines: str) -> str:
    return "\n".join(("+++", *lines, "+++", "Words."))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it has no words"),
        ("+++\nhits = 2\n+++\n  \n", "it has no words"),
        ("x" * (MOST_WORDS + 1), "its words have 4,001 characters"),
        ("\n".join(("+++", "hits = 2", "Words.")), "its front matter is not closed"),
        ("Words.\n+++\nhits = 2\n+++\nMore.", "its front matter is not closed"),
        (front("hits = 2", "+++", "+++", "hits = 3"), "as of two front matters"),
        (front("hits ="), "its front matter is not TOML"),
        (front(f"hits = {'9' * 5_000}"), "its file cannot be read, ValueError: Exceeds the limit"),
        (front(f"hits = 0x{'f' * 9_000}"), "its file cannot be read, ValueError: Exceeds the limit"),
        (front(f"figures = {'[' * 3_000}{']' * 3_000}"), "its file cannot be read, RecursionError: "),
        (front("hits = 51"), "hits is '51'"),
        (front("hits = '4'"), "hits is '4'"),
        (front("by = 'person'"), "by is 'person'"),
        (front("limit = 3"), "its front matter has 'limit'"),
        (front("by = 'rule'"), "by is 'rule', and it has no rule"),
        (front("score = 'gap'"), "it has a score or high, and no rule"),
        (front("where = 'rsi14'"), "where is a number"),
        (front("where = 'pe < 3'"), "where has 'pe', which is not a figure"),
        (front("where = 'gap > 0'", "score = 'gap > 0'"), "score is true or false"),
        (front("where = 'gap > 0'", "high = 'score > 1'"), "high names score, and there is none"),
        (front("where = 'score > 0'", "score = 'gap'"), "where has 'score'"),
        (front("universe = 'sectors: ,'"), "universe is 'sectors: ,'"),
        (front("universe = 'utilities'"), "universe has 'utilities'"),
        (front("tools = ['rm']"), "tools has 'rm'"),
        (front("figures = ['pe']"), "figures has 'pe'"),
        ("Words\x00.", r"the character U\+0000"),
        ("Words \u202eturned.", r"the character U\+202E"),
        ("x\n" * 10_001, "its file has 20,00"),
    ],
)
def test_a_fault_is_one_line_with_the_value_and_the_remedy(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"^the lens mine: .*{says}") as refused:
        read_lens("mine", text, TOOLS)
    assert refused.value.remedy
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["Calm", "calm payers", "../calm", "c" * 33, "", "ｃalm", "1calm", "calm_payers"])  # noqa: RUF001
def test_a_name_is_plain(name: str) -> None:
    with pytest.raises(UsageError, match="a name that is not allowed"):
        read_lens(name, WHOLE, TOOLS)
