"""Workers that call objectives: the calling thread, threads, or an executor."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Protocol

from ._objective import Call, Outcome


class WorkerFailed(Exception):
    """The worker, not the objective, failed; the cause is the exception of the executor."""


class Workers(Protocol):
    """Workers of one run. Used by one thread.

    A finished call stays at the head until `pop`, so that an interrupt between both loses nothing.
    """

    def start(self, call: Call) -> None:
        """Starts a call, which a worker is free for."""

    def head(self, seconds: float) -> tuple[Call, Outcome] | None:
        """Returns a finished call, waiting for up to `seconds`."""

    def pop(self) -> None:
        """Removes the call that `head` returned."""

    def end(self) -> None:
        """Starts no further call. Calls that still run are left alone."""


class CallingThread:
    """Runs a call while `head` waits."""

    def __init__(self) -> None:
        self._call: Call | None = None
        self._finished: tuple[Call, Outcome] | None = None

    def start(self, call: Call) -> None:
        """Keeps the call for `head`."""
        self._call = call

    def head(self, seconds: float) -> tuple[Call, Outcome] | None:
        """Runs the call, if any, to its end; `seconds` is no limit."""
        if self._call is not None:
            call, self._call = self._call, None
            self._finished = call, call()
        return self._finished

    def pop(self) -> None:
        """Removes the finished call."""
        self._finished = None

    def end(self) -> None:
        """Drops a call that has not started."""
        self._call = None


class _Finished:
    """Queue of finished calls, filled by any thread and read by one."""

    def __init__(self) -> None:
        self._calls: deque[tuple[Call, Outcome]] = deque()
        # The calls themselves are not taken from a queue: an interrupt could lose one between `get` and its assignment.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()

    def add(self, call: Call, outcome: Outcome) -> None:
        self._calls.append((call, outcome))
        self._wake.put(None)

    def head(self, seconds: float) -> tuple[Call, Outcome] | None:
        if not self._calls:
            try:
                self._wake.get(timeout=seconds)
            except queue.Empty:
                return None
        return self._calls[0] if self._calls else None

    def pop(self) -> None:
        self._calls.popleft()


class Threads:
    """Daemon threads, so that an objective that still runs after an interrupt does not keep the program alive.

    Each thread runs in a copy of the context of the thread that created it.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._threads = 0
        self._tasks: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._finished = _Finished()
        self.head, self.pop = self._finished.head, self._finished.pop

    def start(self, call: Call) -> None:
        """Hands the call to a thread. There are as many threads as calls at a time, up to the number given."""
        if self._threads < self._count:
            context = contextvars.copy_context()
            # Counted first, so that `end` reaches a thread whose start was interrupted.
            self._threads += 1
            name = f"tunesmith-{self._threads}"
            threading.Thread(target=context.run, args=(self._work,), name=name, daemon=True).start()
        self._tasks.put(call)

    def end(self) -> None:
        """Ends the threads, each after its present call."""
        for _ in range(self._threads):
            self._tasks.put(None)

    def _work(self) -> None:
        while (call := self._tasks.get()) is not None:
            try:
                outcome = call()
            except BaseException as error:  # Raised again by the thread of the run.
                outcome = Outcome(error=error)
            self._finished.add(call, outcome)
            del call, outcome


class ExecutorWorkers:
    """An executor of the user, which the run does not shut down."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._futures: dict[int, Future[Outcome]] = {}
        self._finished = _Finished()
        self.head, self.pop = self._finished.head, self._finished.pop

    def start(self, call: Call) -> None:
        """Submits the call."""
        try:
            future = self._executor.submit(call)
        except Exception as error:
            self._finished.add(call, Outcome(error=_failed(error)))
            return
        self._futures[call.key] = future
        future.add_done_callback(self._receiver(call))

    def end(self) -> None:
        """Cancels the calls that have not started."""
        for future in list(self._futures.values()):
            future.cancel()

    def _receiver(self, call: Call) -> Callable[[Future[Outcome]], None]:
        def receive(future: Future[Outcome]) -> None:
            self._futures.pop(call.key, None)
            try:
                outcome = future.result()
            except BaseException as error:
                outcome = Outcome(error=_failed(error) if _is_of_executor(error) else error)
            self._finished.add(call, outcome)

        return receive


def _is_of_executor(error: BaseException) -> bool:
    # The call returns exceptions of the objective, so that any other one is the executor's. Its cancellation is no
    # `Exception` in all versions.
    return isinstance(error, Exception) or type(error).__name__ == "CancelledError"


def _failed(error: BaseException) -> WorkerFailed:
    failure = WorkerFailed(f"{type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
