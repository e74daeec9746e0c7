"""Signs of life for a trial that has a lease, while it is held."""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Protocol

from .errors import TunesmithError

_LOG = logging.getLogger("tunesmith")


class Renewable(Protocol):
    """What has a lease."""

    def _renew(self, patience: float) -> bool:
        """Gives a sign of life, trying for so many seconds; whether there will have to be another one."""


class LeaseKeeper:
    """Renews the lease of one trial every third of its length, in a daemon thread.

    The thread ends when the trial is released or forgotten: a program that drops a trial does not keep it for ever.
    """

    def __init__(self, trial: Renewable, name: str, lease: float) -> None:
        self._trial = weakref.ref(trial)
        self._name = name
        # A lease that has all but ended is renewed soon, yet not in a busy loop.
        self._interval = max(lease / 3, 0.05)
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lease of {name}", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Lets the lease run out."""
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
                # The next try is not far off, and the trial's own calls tell its owner if it is lost.
                _LOG.warning("the lease of %s was not renewed: %s", self._name, error)
            del trial
