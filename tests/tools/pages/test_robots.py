"""What a robots.txt allows, by the rules of RFC 9309."""

from __future__ import annotations

from email.message import Message

import pytest

from chordesk.models.urls import page_hosts
from chordesk.tools.pages.page_reader import PageError, PageReply, PathRule, Robots, target_of

HOSTS = page_hosts("www.example.com")


def allows(text: str, path: str, status: int = 200) -> bool:
    root, page = (target_of(f"https://www.example.com{place}", HOSTS) for place in ("/", path))
    robots = Robots(root, lambda _url: PageReply(status, Message(), text.encode()))
    try:
        robots.check(page)
    except PageError:
        return False
    return True


@pytest.mark.parametrize(
    ("rules", "path", "expected"),
    [
        ("Allow: /\nDisallow: /private/", "/private/a", False),
        ("Disallow: /private/\nAllow: /private/open", "/private/open/a", True),
        ("Disallow: /a\nAllow: /a", "/a", True),
        ("Disallow: /", "/a", False),
        ("Disallow:", "/a", True),
        ("Disallow: /*", "/a", False),
        ("Disallow: /*/private/", "/x/private/a", False),
        ("Disallow: /*/private/", "/private/a", True),
        ("Disallow: /*.html$", "/a.html", False),
        ("Disallow: /*.html$", "/a.html?b=c", True),
        ("Disallow: /a$", "/a", False),
        ("Disallow: /a$", "/ab", True),
        ("Disallow: /*?", "/a?b=c", False),
        ("Disallow: /%70rivate", "/private", False),
        ("Disallow: /priv%C3%A9", "/priv\u00e9", False),
        ("\n# a comment\n\nDisallow: /a # another\n", "/a", False),
        ("Sitemap: https://www.example.com/a\nDisallow: /b", "/b", False),
    ],
)
def test_the_longest_rule_that_matches_holds(rules: str, path: str, expected: bool) -> None:
    assert allows(f"User-agent: *\n{rules}\n", path) is expected
    assert allows(f"\ufeffUSER-AGENT : ChorDesk\r\n{rules}\r\n", path) is expected


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("User-agent: *\nDisallow: /\n\nUser-agent: chordesk\nAllow: /\n", "/a", True),
        ("User-agent: chordesk\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n", "/b", True),
        ("User-agent: chordesk\nDisallow: /a\n\nUser-agent: chordesk\nDisallow: /b\n", "/b", False),
        ("User-agent: other\nUser-agent: chordesk\nDisallow: /a\n", "/a", False),
        ("User-agent: other\nDisallow: /\n", "/a", True),
        ("<html>User-agent: *\nDisallow: /</html>", "/a", True),
        ("", "/a", True),
    ],
)
def test_the_group_that_names_the_program_goes_before_that_for_any(text: str, path: str, expected: bool) -> None:
    assert allows(text, path) is expected


def test_a_site_that_limits_requests_has_rules_that_are_not_known() -> None:
    with pytest.raises(PageError, match="answers with 429, so its rules are not known"):
        allows("", "/a", status=429)
    assert allows("User-agent: *\nDisallow: /\n", "/a", status=404)


def test_a_rule_of_many_wildcards_takes_no_time() -> None:
    assert not PathRule("/" + "*a" * 2_000 + "$", False).matches("/" + "a" * 1_900 + "b")
