"""Early stop: a trainer that gets SIGTERM ends its training and saves the model so far."""

from __future__ import annotations

import signal
from types import FrameType


class Interrupt:
    """Whether the service asked this trainer to stop."""

    def __init__(self) -> None:
        self.is_raised = False
        signal.signal(signal.SIGTERM, self._raise)

    def _raise(self, _signal: int, _frame: FrameType | None) -> None:
        self.is_raised = True
