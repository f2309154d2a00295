"""Who sees the whole book over HTTP."""

from __future__ import annotations

import pytest

from chordesk.models.errors import DeskError, NotFound, UsageError
from chordesk.tasks.holdings.routes import require_shared
from chordesk.tasks.named_tokens import OWNER, Caller, Scope

READER = Caller("a reader", frozenset({Scope.READ}))


@pytest.mark.parametrize(
    ("caller", "book", "amounts", "refused"),
    [
        (OWNER, "off", True, None),
        (READER, "weights", False, None),
        (READER, "weights", True, UsageError),
        (READER, "size", False, NotFound),
        (READER, "off", False, NotFound),
        (Caller("one who starts runs", frozenset({Scope.READ, Scope.START})), "size", False, NotFound),
    ],
)
def test_others_than_the_owner_see_what_a_model_may_be_told(
    caller: Caller, book: str, amounts: bool, refused: type[DeskError] | None
) -> None:
    found: type[DeskError] | None = None
    try:
        require_shared(caller, book, amounts=amounts)
    except DeskError as error:
        found = type(error)
    assert found is refused
