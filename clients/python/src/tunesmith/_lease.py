"""Renewal of a trial's lease while the trial is in use."""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Protocol

from .errors import TunesmithError

_LOG = logging.getLogger("tunesmith")


class Renewable(Protocol):
    """An object with a lease."""

    def _renew(self, patience: float) -> bool:
        """Renews the lease, with retries for `patience` seconds; returns whether it has to be renewed again."""


class LeaseRenewer:
    """Renews the lease of one trial every third of its length, in a daemon thread.

    The thread ends when the trial is released or garbage collected, so that the lease of a dropped trial expires.
    """

    def __init__(self, trial: Renewable, name: str, lease: float) -> None:
        self._trial = weakref.ref(trial)
        self._name = name
        # A lease that is about to expire is renewed soon, but not in a busy loop.
        self._interval = max(lease / 3, 0.05)
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lease of {name}", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Stops renewing the lease."""
        self._released.set()

    def _run(self) -> None:
        while not self._released.wait(self._interval):
            trial = self._trial()
            if trial is None:
                return
            try:
                if not trial._renew(self._interval):
                    return
            except TunesmithError as error:
                # The next attempt follows soon, and the trial's own calls raise `TrialLost` if it is lost.
                _LOG.warning("the lease of %s was not renewed: %s", self._name, error)
            del trial
