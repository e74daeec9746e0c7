"""Adapter of Hyperopt: `hyperopt_peer.py [tpe]`. Written for Hyperopt 0.3.0.

| parameter | in Hyperopt |
| --- | --- |
| DOUBLE | `hp.uniform`, `hp.loguniform` on a log scale |
| INTEGER | `hp.uniformint`; on a log scale `hp.qloguniform` with step 1, half a step wider at each end, then rounded |
| DISCRETE | `hp.uniformint` over the indices of the values, which keeps their order and drops their distances |
| CATEGORICAL | `hp.choice` |
| reverse log scale | the mirrored value `min + max - x` on a log scale |

One metric; constraints are unsupported. A failed trial has the status `STATUS_FAIL`, which TPE ranks last. Foreign
trials are inserted as completed documents.

The budget is not used. `tpe.suggest` has its defaults (20 random trials first). As with `fmin`, the seed of each point is
drawn from a generator with the seed of the study. Running trials are in the list with state RUNNING.
"""

import logging
import sys

import tunesmith_peer

tunesmith_peer.prepare()

import hyperopt  # noqa: E402
import numpy  # noqa: E402
from hyperopt import hp  # noqa: E402


class HyperoptPeer(tunesmith_peer.Peer):
    """Hyperopt's tree-structured Parzen estimator."""

    def create(self, study):
        study.require()
        self.problem = study
        self.labels = {parameter.name: f"p{at}" for at, parameter in enumerate(study.free)}
        self.trials = hyperopt.Trials()
        self.domain = hyperopt.Domain(lambda point: 0.0, {label: expression(label, parameter) for parameter, label in
                                                          zip(study.free, self.labels.values())})
        self.random = numpy.random.default_rng(study.seed32)
        self.pending = {}

    def suggest(self, trials):
        points = []
        for trial in trials:
            identifiers = self.trials.new_trial_ids(1)
            [document] = hyperopt.tpe.suggest(identifiers, self.domain, self.trials,
                                              int(self.random.integers(2 ** 31 - 1)), verbose=False)
            self.trials.insert_trial_docs([document])
            self.trials.refresh()
            document = self.trials.trials[-1]
            document["state"] = hyperopt.JOB_STATE_RUNNING
            self.pending[trial] = document
            values = document["misc"]["vals"]
            points.append({parameter.name: from_hyperopt(parameter, values[self.labels[parameter.name]][0])
                           for parameter in self.problem.free})
        return points

    def complete(self, result):
        outcome = {"status": hyperopt.STATUS_FAIL} if result.losses is None else \
            {"status": hyperopt.STATUS_OK, "loss": result.losses[0]}
        document = self.pending.pop(result.trial, None)
        if document is None:
            [identifier] = self.trials.new_trial_ids(1)
            values = {self.labels[parameter.name]: [to_hyperopt(parameter, result.parameters[parameter.name])]
                      for parameter in self.problem.free}
            [document] = self.trials.new_trial_docs([identifier], [None], [outcome], [
                {"tid": identifier, "cmd": self.domain.cmd, "workdir": self.domain.workdir, "vals": values,
                 "idxs": {label: [identifier] for label in values}}])
            document["state"] = hyperopt.JOB_STATE_DONE
            self.trials.insert_trial_docs([document])
        else:
            document["result"] = outcome
            document["state"] = hyperopt.JOB_STATE_DONE
        self.trials.refresh()


def expression(label, parameter):
    """Returns the search space of `parameter`."""
    if parameter.kind == "CATEGORICAL":
        return hp.choice(label, list(range(len(parameter.values))))
    if parameter.kind == "DISCRETE":
        return hp.uniformint(label, 0, len(parameter.values) - 1)
    if not parameter.is_log:
        kind = hp.uniformint if parameter.kind == "INTEGER" else hp.uniform
        return kind(label, parameter.minimum, parameter.maximum)
    bounds = parameter.transformed_bounds()
    return hp.qloguniform(label, *bounds, 1) if parameter.kind == "INTEGER" else hp.loguniform(label, *bounds)


def to_hyperopt(parameter, value):
    """Converts `value` to its representation in a document of Hyperopt."""
    if parameter.kind in ("CATEGORICAL", "DISCRETE"):
        return parameter.index(value)
    return parameter.mirror(value)


def from_hyperopt(parameter, value):
    """Returns the inverse of `to_hyperopt`."""
    if parameter.kind in ("CATEGORICAL", "DISCRETE"):
        return parameter.values[min(max(int(value), 0), len(parameter.values) - 1)]
    return parameter.mirror(parameter.legal(value))


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["tpe"]):
        sys.exit("usage: hyperopt_peer.py [tpe]")
    logging.disable(logging.WARNING)
    tunesmith_peer.serve(HyperoptPeer("hyperopt-tpe", f"hyperopt {hyperopt.__version__}"))
