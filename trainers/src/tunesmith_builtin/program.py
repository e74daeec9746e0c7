"""Entry point of a trainer: errors of the user's input end the program without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from .errors import InputError


def run(train: Callable[[Sequence[str]], None]) -> None:
    """Runs ``train`` with the arguments of this process; exit code 2 for an :class:`InputError`."""
    try:
        train(sys.argv[1:])
    except InputError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(2)
