"""Reports of metrics through the metric file of the service, as PyPI ``cloudml-hypertune`` writes it."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path


class Reporter:
    """Appends a line of metrics per step to the file that ``CLOUD_ML_HP_METRIC_FILE`` names, if any, and to the log."""

    def __init__(self) -> None:
        path = os.environ.get("CLOUD_ML_HP_METRIC_FILE")
        self._path = Path(path) if path else None
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)

    def report(self, step: int, metrics: Mapping[str, float]) -> None:
        """Reports ``metrics`` of ``step``; metrics that are not numbers are left out, and named in the log."""
        shown = ", ".join(f"{name} {value:.6g}" for name, value in metrics.items())
        print(f"step {step}: {shown}", flush=True)
        finite = {name: str(value) for name, value in metrics.items() if math.isfinite(value)}
        if self._path is None or not finite:
            return
        line = {
            "timestamp": time.time(),
            "trial": os.environ.get("CLOUD_ML_TRIAL_ID", "0"),
            **finite,
            "global_step": str(step),
            "checkpoint_path": "",
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
