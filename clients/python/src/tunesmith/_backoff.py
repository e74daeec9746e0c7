"""Waiting times between attempts."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime


@dataclass(frozen=True)
class Backoff:
    """Exponentially growing waits. Each is drawn from the upper half of its length, so that clients spread out."""

    first: float = 0.1
    """The first wait, in seconds."""
    most: float = 5.0
    """The longest wait, in seconds."""
    random: random.Random = field(default_factory=random.Random, compare=False)

    def seconds(self, attempt: int) -> float:
        """Returns the seconds to wait after `attempt`, from 0, has failed."""
        # Beyond 2^30 every wait is the longest one.
        length: float = min(self.most, self.first * 2.0 ** min(attempt, 30))
        return length * self.random.uniform(0.5, 1.0)


def retry_after(header: str | None) -> float | None:
    """Returns the seconds of a `Retry-After` header, a number or a date; `None` if it is neither."""
    if header is None:
        return None
    try:
        return max(0.0, float(int(header)))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=timezone.utc)
    return max(0.0, (at - datetime.now(timezone.utc)).total_seconds())
