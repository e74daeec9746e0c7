"""Adapter of Ax: `ax_peer.py`, the `Client` with the default generation strategy. Written for ax-platform 1.3.1.

| parameter | in Ax |
| --- | --- |
| DOUBLE | `RangeParameterConfig`, `scaling="log"` on a log scale |
| INTEGER | the same with type `int` |
| DISCRETE | `ChoiceParameterConfig` of numbers, ordered; its scale is dropped |
| CATEGORICAL | `ChoiceParameterConfig` of text, not ordered |
| reverse log scale | the mirrored value `min + max - x` on a log scale |

Several metrics: a multi-objective goal without thresholds. Constraints: `outcome_constraints`. Metrics are passed as
minimised losses. A failed trial is marked as abandoned, so that Ax does not suggest it again. Foreign trials are attached.

The budget is not used. The client has the seed of the study and defaults otherwise: the centre, Sobol points, then
Bayesian optimisation by BoTorch.
"""

import logging
import sys
import warnings

import tunesmith_peer

tunesmith_peer.prepare()
warnings.simplefilter("ignore")

import importlib.metadata  # noqa: E402

import torch  # noqa: E402
from ax.api.client import Client  # noqa: E402
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig  # noqa: E402


class AxPeer(tunesmith_peer.Peer):
    """The `Client` of Ax."""

    def create(self, study):
        study.require(metrics=sys.maxsize, constraints=True)
        self.problem = study
        self.client = Client(random_seed=study.seed32)
        self.client.configure_experiment(parameters=[configuration(f"p{at}", parameter)
                                                     for at, parameter in enumerate(study.free)])
        constraints = [f"c{at} <= 0" for at in range(study.constraints)]
        self.client.configure_optimization(objective=", ".join(f"-m{at}" for at in range(len(study.metrics))),
                                           **({"outcome_constraints": constraints} if constraints else {}))
        self.pending = {}

    def suggest(self, trials):
        points = []
        while len(points) < len(trials):
            given = self.client.get_next_trials(max_trials=len(trials) - len(points))
            if not given:
                raise RuntimeError("Ax returns no trial until others are completed")
            for index, values in given.items():
                self.pending[trials[len(points)]] = index
                points.append({parameter.name: from_ax(parameter, values[f"p{at}"])
                               for at, parameter in enumerate(self.problem.free)})
        return points

    def complete(self, result):
        index = self.pending.pop(result.trial, None)
        if index is None:
            index = self.client.attach_trial({f"p{at}": to_ax(parameter, result.parameters[parameter.name])
                                              for at, parameter in enumerate(self.problem.free)})
        if result.losses is None:
            self.client.mark_trial_abandoned(index)
            return
        raw_data = {f"m{at}": loss for at, loss in enumerate(result.losses)}
        raw_data |= {f"c{at}": value for at, value in enumerate(result.constraints)}
        self.client.complete_trial(index, raw_data)


def configuration(name, parameter):
    """Returns the configuration of `parameter`."""
    if parameter.values:
        ordered = parameter.kind == "DISCRETE"
        return ChoiceParameterConfig(name=name, values=list(parameter.values), is_ordered=ordered,
                                     parameter_type="float" if ordered else "str")
    return RangeParameterConfig(name=name, bounds=(parameter.minimum, parameter.maximum),
                                parameter_type="int" if parameter.kind == "INTEGER" else "float",
                                scaling="log" if parameter.is_log else None)


def to_ax(parameter, value):
    """Converts `value` to the representation of Ax."""
    return parameter.mirror(value)


def from_ax(parameter, value):
    """Returns the inverse of `to_ax`."""
    return parameter.mirror(parameter.legal(value))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit("usage: ax_peer.py")
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    tunesmith_peer.serve(AxPeer("ax", f"ax-platform {importlib.metadata.version('ax-platform')}"))
