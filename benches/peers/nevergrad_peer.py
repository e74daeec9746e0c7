"""Adapter of Nevergrad: `nevergrad_peer.py [ngopt]`. Written for Nevergrad 1.0.12.

| parameter | in Nevergrad |
| --- | --- |
| DOUBLE | `Scalar(lower, upper)`, `Log(lower, upper)` on a log scale |
| INTEGER | the same with `set_integer_casting()` |
| DISCRETE | `TransitionChoice`, which keeps the order and drops the distances |
| CATEGORICAL | `Choice` |
| reverse log scale | the mirrored value `min + max - x` on a log scale |

Several metrics: a list of losses, which Nevergrad converts to a hypervolume indicator. Constraints: `tell` with
`constraint_violation`, the penalty of the library. A failed trial has an infinite loss (which the library replaces by
5e20); with several metrics it is left out. Foreign trials are passed to `tell` as not asked for. They are left out if
the algorithm that NGOpt chose does not accept them.

The budget and the parallel trials are used: NGOpt chooses its algorithm by them, so a study that is stopped early
differs from one with a smaller budget. The random state of the parametrization has the seed of the study.
"""

import math
import sys
import warnings

import tunesmith_peer

tunesmith_peer.prepare()

import nevergrad  # noqa: E402
import numpy  # noqa: E402


class NevergradPeer(tunesmith_peer.Peer):
    """One of the optimizers of Nevergrad."""

    def create(self, study):
        study.require(metrics=sys.maxsize, constraints=True)
        self.problem = study
        space = nevergrad.p.Dict(**{f"p{at}": parameter_of(parameter) for at, parameter in enumerate(study.free)})
        space.random_state = numpy.random.RandomState(study.seed32)
        self.optimizer = nevergrad.optimizers.NGOpt(space, budget=study.budget, num_workers=study.parallel)
        if len(study.metrics) > 1:
            self.optimizer.num_objectives = len(study.metrics)
        self.pending = {}

    def suggest(self, trials):
        points = []
        for trial in trials:
            candidate = self.optimizer.ask()
            self.pending[trial] = candidate
            points.append({parameter.name: parameter.mirror(parameter.legal(candidate.value[f"p{at}"]))
                           for at, parameter in enumerate(self.problem.free)})
        return points

    def complete(self, result):
        candidate = self.pending.pop(result.trial, None)
        several = len(self.problem.metrics) > 1
        if result.losses is None and several:
            return
        loss = math.inf if result.losses is None else result.losses if several else result.losses[0]
        if candidate is None:
            candidate = self.optimizer.parametrization.spawn_child(new_value={
                f"p{at}": parameter.mirror(result.parameters[parameter.name])
                for at, parameter in enumerate(self.problem.free)})
        violation = numpy.array(result.constraints) if result.constraints else None
        try:
            self.optimizer.tell(candidate, loss, violation)
        except nevergrad.errors.TellNotAskedNotSupportedError as error:
            print(f"left out foreign trial {result.trial}: {error}", file=sys.stderr)


def parameter_of(parameter):
    """Returns the parametrization of `parameter`."""
    if parameter.kind == "CATEGORICAL":
        return nevergrad.p.Choice(parameter.values)
    if parameter.kind == "DISCRETE":
        return nevergrad.p.TransitionChoice(parameter.values)
    kind = nevergrad.p.Log if parameter.is_log else nevergrad.p.Scalar
    number = kind(lower=parameter.minimum, upper=parameter.maximum)
    return number.set_integer_casting() if parameter.kind == "INTEGER" else number


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["ngopt"]):
        sys.exit("usage: nevergrad_peer.py [ngopt]")
    warnings.simplefilter("ignore")
    tunesmith_peer.serve(NevergradPeer("nevergrad-ngopt", f"nevergrad {nevergrad.__version__}"))
