"""Errors of the user's input, and notices about arguments without effect."""

from __future__ import annotations

import sys


class InputError(Exception):
    """An argument or a data file that cannot be used. The message names it and what is allowed."""


def notice(text: str) -> None:
    """Writes ``text`` to the log of the trial."""
    print(f"notice: {text}", file=sys.stderr, flush=True)
