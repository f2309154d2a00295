"""Names of accounts: that of a broker, and those of backtests, on which no broker but the paper one ever acts."""

from __future__ import annotations

PAPER = "paper"
BACKTEST = "backtest-"
_RESEARCH = "-research"
_DIGITS = 12


def backtest_account(run_id: str) -> str:
    """Return the account of a backtest: its own, with the random end of its id."""
    return f"{BACKTEST}{run_id[-_DIGITS:]}"


def research_account(account: str) -> str:
    """Return the account which the research of a backtest sees when its days run beside each other: always empty."""
    return f"{account}{_RESEARCH}"


def is_backtest(account: str) -> bool:
    """Return whether an account is that of a backtest."""
    return account.startswith(BACKTEST)


def is_paper(account: str) -> bool:
    """Return whether the paper broker alone acts on an account."""
    return account == PAPER or is_backtest(account)
