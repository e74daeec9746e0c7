"""Search spaces, points drawn from them, and their tuning configurations."""

import json
from dataclasses import dataclass

import numpy as np
from scipy.stats import qmc


def rounded(value):
    """Rounds `value` to the six significant digits of a table."""
    return float(f"{value:.6g}")


@dataclass(frozen=True)
class Double:
    name: str
    low: float
    high: float
    scale: str = "UNIT_LINEAR_SCALE"

    def at(self, unit):
        value = unscaled(unit, self.low, self.high, self.scale)
        return min(max(rounded(value), self.low), self.high)

    def text(self, value):
        return f"{value:.6g}"

    def yaml(self):
        return ["type: DOUBLE", f"minValue: {self.low:g}", f"maxValue: {self.high:g}", f"scaleType: {self.scale}"]


@dataclass(frozen=True)
class Integer:
    name: str
    low: int
    high: int
    scale: str = "UNIT_LINEAR_SCALE"

    def at(self, unit):
        # Each integer has the share of the scale that rounds to it. On a logarithmic scale the extension by half a step
        # remains positive, because no lower bound is below 1.
        value = unscaled(unit, self.low - 0.5, self.high + 0.5, self.scale)
        return min(max(round(value), self.low), self.high)

    def text(self, value):
        return str(value)

    def yaml(self):
        return ["type: INTEGER", f"minValue: {self.low}", f"maxValue: {self.high}", f"scaleType: {self.scale}"]


@dataclass(frozen=True)
class Levels:
    """Numbers or texts with equal probabilities."""

    name: str
    values: tuple

    def at(self, unit):
        return self.values[min(int(unit * len(self.values)), len(self.values) - 1)]

    def text(self, value):
        return str(value)

    def yaml(self):
        texts = all(isinstance(value, str) for value in self.values)
        kind, key = ("CATEGORICAL", "categoricalValues") if texts else ("DISCRETE", "discreteValues")
        return [f"type: {kind}", f"{key}: {json.dumps(self.values)}"]


def unscaled(unit, low, high, scale):
    """Maps `unit` in [0, 1] to the range from `low` to `high` on the scale."""
    if scale == "UNIT_LOG_SCALE":
        return low * (high / low) ** unit
    if scale == "UNIT_REVERSE_LOG_SCALE":
        return low + high - low * (high / low) ** (1 - unit)
    return low + (high - low) * unit


def points(space, seed, count):
    """Returns the first `count` points of a scrambled Sobol sequence; they do not depend on `count`."""
    exponent = int(np.ceil(np.log2(max(count, 2))))
    units = qmc.Sobol(len(space), scramble=True, rng=seed).random_base2(exponent)[:count]
    return [{parameter.name: parameter.at(unit) for parameter, unit in zip(space, row)} for row in units]


def configuration(space, comment):
    """Returns the `hptuning_config.yaml` of a study of `space`."""
    lines = [
        f"# {comment}",
        "trainingInput:",
        "  hyperparameters:",
        "    goal: MINIMIZE",
        "    hyperparameterMetricTag: objective",
        "    maxTrials: 50",
        "    maxParallelTrials: 1",
        "    params:",
    ]
    for parameter in space:
        lines.append(f"    - parameterName: {parameter.name}")
        lines.extend(f"      {line}" for line in parameter.yaml())
    return "\n".join(lines) + "\n"
