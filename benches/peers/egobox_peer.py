"""Adapter of egobox: `egobox_peer.py`. Written for egobox 1.0.0.

| parameter | in egobox |
| --- | --- |
| DOUBLE | `FLOAT`; on a log scale `FLOAT` over its natural logarithm |
| INTEGER | `INT`; on a log scale `FLOAT` over the logarithm, half a step wider at each end, then rounded |
| DISCRETE | `ORD` over the values, over their logarithms on a log scale |
| CATEGORICAL | `ENUM` |
| reverse log scale | the mirrored value `min + max - x` on a log scale |

egobox has no scales, so the adapter takes logarithms, as its users do. One metric: `Egor`; several: `Belfegor`, which
egobox declares experimental. Constraints: `n_cstr`. A failed trial is left out, as the default `REJECTION` does
(`suggest` itself panics on NaN).

The budget is not used. `suggest` is a pure function of the completed trials, so foreign trials are like all others. As
with `minimize`, a study starts with a Latin hypercube (`lhs`) of `max(parameters + 1, 5)` points, minus the number of
existing trials. Points requested together are one batch (`qei_config`, default strategy). Running trials have the best
value of each output so far, which is the constant liar of egobox. All other settings are defaults. The seed of each call
is drawn from a generator with the seed of the study.
"""

import math
import random
import sys

import tunesmith_peer

tunesmith_peer.prepare()

import importlib.metadata  # noqa: E402

import egobox  # noqa: E402
import numpy  # noqa: E402


class EgoboxPeer(tunesmith_peer.Peer):
    """The efficient global optimisation of egobox."""

    def create(self, study):
        study.require(metrics=sys.maxsize, constraints=True)
        self.problem = study
        self.specifications = [specification(parameter) for parameter in study.free]
        self.random = random.Random(study.seed)
        self.initial = egobox.lhs(self.specifications, max(len(study.free) + 1, 5), seed=self.next_seed())
        self.initial_given = 0
        self.pending = {}
        self.inputs = []
        self.outputs = []

    def next_seed(self):
        """Returns a seed for one call of the library."""
        return self.random.randrange(1 << 31)

    def suggest(self, trials):
        rows = []
        while len(rows) < len(trials) and self.initial_given < len(self.initial) \
                and len(self.inputs) + len(self.pending) + len(rows) < len(self.initial):
            rows.append(self.initial[self.initial_given])
            self.initial_given += 1
        missing = len(trials) - len(rows)
        if missing and len(self.inputs) < 3:  # Too few results for a model.
            rows.extend(egobox.sampling(self.specifications, missing, method=egobox.Sampling.RANDOM,
                                        seed=self.next_seed()))
        elif missing:
            rows.extend(self.ask(missing, rows))
        points = []
        for trial, row in zip(trials, rows):
            self.pending[trial] = numpy.asarray(row)
            points.append({parameter.name: from_egobox(parameter, value)
                           for parameter, value in zip(self.problem.free, row)})
        return points

    def ask(self, batch, also_pending):
        """Returns a batch of `batch` rows that the model suggests."""
        best = [min(column) for column in zip(*self.outputs)]
        pending = [*self.pending.values(), *also_pending]
        inputs = numpy.array([*self.inputs, *pending], dtype=float)
        outputs = numpy.array([*self.outputs, *([best] * len(pending))], dtype=float)
        options = {"n_cstr": self.problem.constraints}
        if len(self.problem.metrics) > 1:
            optimizer = egobox.Belfegor(self.specifications, n_obj=len(self.problem.metrics),
                                        moo_config={"batch": batch}, **options)
        else:
            optimizer = egobox.Egor(self.specifications, qei_config={"batch": batch}, **options)
        return list(optimizer.suggest(inputs, outputs, seed=self.next_seed()))[:batch]

    def complete(self, result):
        self.pending.pop(result.trial, None)
        if result.losses is None or len(result.constraints) != self.problem.constraints:
            return
        self.inputs.append([to_egobox(parameter, result.parameters[parameter.name])
                            for parameter in self.problem.free])
        self.outputs.append([*result.losses, *result.constraints])


def levels(parameter):
    """Returns the increasing numbers that represent the values of a DISCRETE parameter in egobox."""
    values = [math.log(value) for value in parameter.values] if parameter.scale == "UNIT_LOG_SCALE" \
        and parameter.values[0] > 0 else parameter.values
    return list(values)


def specification(parameter):
    """Returns the specification of `parameter`."""
    if parameter.kind == "CATEGORICAL":
        return egobox.XSpec(egobox.XType.ENUM, [len(parameter.values)])
    if parameter.kind == "DISCRETE":
        return egobox.XSpec(egobox.XType.ORD, levels(parameter))
    whole = parameter.kind == "INTEGER" and not parameter.is_log
    return egobox.XSpec(egobox.XType.INT if whole else egobox.XType.FLOAT, list(parameter.transformed_bounds()))


def to_egobox(parameter, value):
    """Converts `value` to a number of egobox."""
    if parameter.kind == "CATEGORICAL":
        return float(parameter.index(value))
    if parameter.kind == "DISCRETE":
        return levels(parameter)[parameter.index(value)]
    return parameter.transformed(value)


def from_egobox(parameter, number):
    """Returns the inverse of `to_egobox`."""
    if parameter.kind == "CATEGORICAL":
        return parameter.values[min(max(int(round(number)), 0), len(parameter.values) - 1)]
    if parameter.kind == "DISCRETE":
        known = levels(parameter)
        return parameter.values[min(range(len(known)), key=lambda at: abs(known[at] - number))]
    return parameter.restored(number)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit("usage: egobox_peer.py")
    tunesmith_peer.serve(EgoboxPeer("egobox", f"egobox {importlib.metadata.version('egobox')}"))
