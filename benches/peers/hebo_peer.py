"""Adapter of HEBO: `hebo_peer.py`. Written for HEBO 0.3.6.

| parameter | in HEBO |
| --- | --- |
| DOUBLE | `num`, `pow` on a log scale |
| INTEGER | `int`, `pow_int` on a log scale |
| DISCRETE | `int` over the indices of the values, which keeps their order and drops their distances |
| CATEGORICAL | `cat` |
| reverse log scale | the mirrored value `min + max - x` on a log scale |

One metric; constraints are unsupported. A failed trial is not observed, as HEBO does with values that are not finite.
Foreign trials are observed like all others.

The budget is not used. `HEBO` has its defaults: Sobol points, one more than parameters, then its ensemble of acquisition
functions. Its Sobol sequence and the global generators of NumPy and PyTorch, which it uses, have the seed of the study.
It has no running trials; points requested together are one batch.
"""

import logging
import random
import sys
import warnings

import tunesmith_peer

tunesmith_peer.prepare()
warnings.simplefilter("ignore")

import importlib.metadata  # noqa: E402

import numpy  # noqa: E402
import pandas  # noqa: E402
import torch  # noqa: E402
from hebo.design_space.design_space import DesignSpace  # noqa: E402
from hebo.optimizers.hebo import HEBO  # noqa: E402


class HeboPeer(tunesmith_peer.Peer):
    """The heteroscedastic evolutionary Bayesian optimiser."""

    def create(self, study):
        study.require()
        random.seed(study.seed)
        numpy.random.seed(study.seed32)
        torch.manual_seed(study.seed32)
        self.problem = study
        self.space = DesignSpace().parse([definition(f"p{at}", parameter)
                                          for at, parameter in enumerate(study.free)])
        self.optimizer = HEBO(self.space, scramble_seed=study.seed32)

    def suggest(self, trials):
        rows = self.optimizer.suggest(n_suggestions=len(trials)).to_dict("records")
        return [{parameter.name: from_hebo(parameter, row[f"p{at}"]) for at, parameter in enumerate(self.problem.free)}
                for row in rows]

    def complete(self, result):
        if result.losses is None:
            return
        row = pandas.DataFrame([{f"p{at}": to_hebo(parameter, result.parameters[parameter.name])
                                 for at, parameter in enumerate(self.problem.free)}])
        self.optimizer.observe(row, numpy.array([result.losses]))


def definition(name, parameter):
    """Returns the definition of `parameter`."""
    if parameter.kind == "CATEGORICAL":
        return {"name": name, "type": "cat", "categories": list(parameter.values)}
    if parameter.kind == "DISCRETE":
        return {"name": name, "type": "int", "lb": 0, "ub": len(parameter.values) - 1}
    kind = {("DOUBLE", False): "num", ("DOUBLE", True): "pow", ("INTEGER", False): "int",
            ("INTEGER", True): "pow_int"}[parameter.kind, parameter.is_log]
    return {"name": name, "type": kind, "lb": parameter.minimum, "ub": parameter.maximum}


def to_hebo(parameter, value):
    """Converts `value` to the representation of HEBO."""
    return parameter.index(value) if parameter.kind == "DISCRETE" else parameter.mirror(value)


def from_hebo(parameter, value):
    """Returns the inverse of `to_hebo`."""
    if parameter.kind == "DISCRETE":
        return parameter.values[int(value)]
    return parameter.mirror(parameter.legal(value))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit("usage: hebo_peer.py")
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    tunesmith_peer.serve(HeboPeer("hebo", f"HEBO {importlib.metadata.version('HEBO')}"))
