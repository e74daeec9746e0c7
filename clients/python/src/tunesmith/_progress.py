"""Progress of a run: one line that is rewritten in a terminal or a notebook."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

from .errors import NoResult
from .records import TrialRecord

if TYPE_CHECKING:
    from .optimizer import Optimizer

_SECONDS_BETWEEN_LINES = 0.1
_SECONDS_BETWEEN_LINES_OF_A_LOG = 10.0


class Display(Protocol):
    """Output of progress."""

    interval: float
    """Seconds between lines."""

    def show(self, line: str) -> None:
        """Shows the line in place of the last one."""

    def end(self) -> None:
        """Leaves the last line."""


class Progress:
    """Counts of a run, and when they are shown."""

    def __init__(
        self,
        *,
        total: int,
        finished: int,
        failed: int,
        optimizer: Optimizer,
        display: Display | None,
        name: str | None,
    ) -> None:
        self._total = total
        self._finished = finished
        self._failed = failed
        self._finished_before = finished
        self._optimizer = optimizer
        self._display = display
        self._prefix = "" if name is None else f"{name}  "
        self._started_at = time.monotonic()
        self._shown_at = float("-inf")

    def finished(self, record: TrialRecord) -> None:
        """Counts a trial that has just ended."""
        self._finished += 1
        self._failed += record.infeasible

    def update(self) -> None:
        """Shows the line, unless the last one is recent."""
        if self._display is not None and time.monotonic() - self._shown_at >= self._display.interval:
            self._show(self._display)

    def end(self) -> None:
        """Shows the final line."""
        if self._display is not None:
            self._show(self._display)
            self._display.end()

    def line(self) -> str:
        """Returns the line: finished and total, best, failed, rate, time left."""
        parts = [f"{self._finished}/{self._total} trials", self._best(), f"{self._failed} failed"]
        elapsed = time.monotonic() - self._started_at
        in_this_run = self._finished - self._finished_before
        if in_this_run > 0 and elapsed > 0:
            parts.append(_rate(in_this_run / elapsed))
            left = self._total - self._finished
            parts.append(f"about {duration(left * elapsed / in_this_run)} left" if left > 0 else duration(elapsed))
        return self._prefix + "  ".join(parts)

    def _best(self) -> str:
        names = [metric.name for metric in self._optimizer.metrics if metric.safety_threshold is None]
        if len(names) > 1:
            return f"{len(self._optimizer.front)} optimal"
        try:
            best = self._optimizer.best
        except NoResult:
            return "no result"
        return f"best {names[0]}={best.metrics[names[0]]:.6g} (trial {best.number})"

    def _show(self, display: Display) -> None:
        self._shown_at = time.monotonic()
        display.show(self.line())


def progress_display(wanted: bool | None) -> Display | None:
    """Returns the display for this program; by default none where stderr is neither a terminal nor a notebook."""
    if wanted not in (None, True, False):
        raise ValueError(f"progress: {wanted!r} is not True, False or None")
    if wanted is False:
        return None
    if _is_notebook():
        return NotebookDisplay()
    # Programs without a console, such as services, have no stderr.
    if sys.stderr is None:
        return None
    if sys.stderr.isatty():
        return TerminalDisplay()
    return LogDisplay() if wanted else None


class TerminalDisplay:
    """A line of a terminal. It is padded, not erased, which any terminal understands."""

    interval = _SECONDS_BETWEEN_LINES

    def __init__(self) -> None:
        self._length = 0

    def show(self, line: str) -> None:
        """Overwrites the line."""
        # The last column would wrap.
        line = line[: max(shutil.get_terminal_size().columns - 1, 1)]
        sys.stderr.write("\r" + line.ljust(self._length))
        sys.stderr.flush()
        self._length = len(line)

    def end(self) -> None:
        """Ends the line."""
        sys.stderr.write("\n")
        sys.stderr.flush()


class LogDisplay:
    """Lines of a file or pipe, far apart."""

    interval = _SECONDS_BETWEEN_LINES_OF_A_LOG

    def show(self, line: str) -> None:
        """Writes the line."""
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Does nothing: each line has ended."""


class NotebookDisplay:
    """An output of a notebook's cell, which is updated."""

    interval = _SECONDS_BETWEEN_LINES

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, line: str) -> None:
        """Shows the line as text."""
        data = {"text/plain": line}
        if self._handle is None:
            display = sys.modules["IPython.display"].display
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def end(self) -> None:
        """Does nothing: the output stays."""


def duration(seconds: float) -> str:
    """Returns a duration for people, such as `42 s` or `1 h 5 min`."""
    if seconds < 59.5:
        return f"{max(seconds, 1):.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def _rate(per_second: float) -> str:
    if per_second >= 1:
        return f"{per_second:.3g} trials/s"
    if per_second * 60 >= 1:
        return f"{per_second * 60:.3g} trials/min"
    return f"{per_second * 3600:.3g} trials/h"


def _is_notebook() -> bool:
    # A kernel has imported both. Importing them here would make a dependency.
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "IPython.display" in sys.modules and type(shell).__name__ == "ZMQInteractiveShell"
