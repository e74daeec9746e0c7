"""Adapter of SMAC3: `smac_peer.py`, the hyperparameter optimisation facade. Written for SMAC 2.4.1.

| parameter | in ConfigSpace |
| --- | --- |
| DOUBLE | `UniformFloatHyperparameter`, `log=True` on a log scale |
| INTEGER | `UniformIntegerHyperparameter`, `log=True` on a log scale |
| DISCRETE | `OrdinalHyperparameter` |
| CATEGORICAL | `CategoricalHyperparameter` |
| reverse log scale | the mirrored value `min + max - x` on a log scale |

Several metrics: `objectives`, which the facade scales and averages. Constraints are unsupported. A failed trial has the
status `CRASHED` and the worst cost so far, as soon as there is one, because the forest cannot be fitted to the default
`crash_cost`, infinity. Foreign trials are passed to `tell` as the documentation of SMAC describes for a warm start.

The budget is used: `n_trials` limits the Sobol points to a quarter of it, or ten points per parameter. The facade has
its defaults; among them, the forest is refitted only after eight more suggestions. The one departure is
`deterministic=True`: otherwise SMAC repeats points with other seeds to average noise, which does not apply to a tuner
with one value per trial. Its history is not written to disk.
"""

import shutil
import sys
import tempfile
import warnings

import tunesmith_peer

tunesmith_peer.prepare()

import ConfigSpace  # noqa: E402
import importlib.metadata  # noqa: E402
import smac  # noqa: E402
from smac.runhistory import StatusType, TrialInfo, TrialValue  # noqa: E402


class SmacPeer(tunesmith_peer.Peer):
    """The hyperparameter optimisation facade with its ask-and-tell interface."""

    folder = None

    def create(self, study):
        study.require(metrics=sys.maxsize)
        self.close()
        self.problem = study
        self.space = ConfigSpace.ConfigurationSpace(seed=study.seed32)
        self.space.add([hyperparameter(f"p{at}", parameter) for at, parameter in enumerate(study.free)])
        self.folder = tempfile.mkdtemp(prefix="tunesmith-smac-")
        names = [f"m{at}" for at in range(len(study.metrics))]
        scenario = smac.Scenario(self.space, output_directory=self.folder, deterministic=True, n_trials=study.budget,
                                 seed=study.seed32, objectives=names[0] if len(names) == 1 else names)
        self.facade = smac.HyperparameterOptimizationFacade(
            scenario, lambda config, seed=0: 0.0, logging_level=False, overwrite=True)
        self.pending = {}
        self.failed = []
        self.worst = None

    def close(self):
        """Removes the files of the previous study."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def suggest(self, trials):
        points = []
        for trial in trials:
            try:
                info = self.facade.ask()
            except StopIteration:
                break
            self.pending[trial] = info
            points.append({parameter.name: from_smac(parameter, info.config[f"p{at}"])
                           for at, parameter in enumerate(self.problem.free)})
        return points

    def complete(self, result):
        info = self.pending.pop(result.trial, None)
        if info is None:
            info = TrialInfo(ConfigSpace.Configuration(self.space, values={
                f"p{at}": to_smac(parameter, result.parameters[parameter.name])
                for at, parameter in enumerate(self.problem.free)}), seed=0)
        if result.losses is None:
            self.failed.append(info)
        else:
            self.worst = [max(pair) for pair in zip(self.worst or result.losses, result.losses)]
            self.tell(info, result.losses, StatusType.SUCCESS)
        if self.worst is not None:
            for info in self.failed:
                self.tell(info, self.worst, StatusType.CRASHED)
            self.failed = []

    def tell(self, info, costs, status):
        """Reports a completed trial to the facade."""
        self.facade.tell(info, TrialValue(cost=costs if len(costs) > 1 else costs[0], status=status), save=False)


def hyperparameter(name, parameter):
    """Returns the hyperparameter of `parameter`."""
    if parameter.kind == "CATEGORICAL":
        return ConfigSpace.CategoricalHyperparameter(name, list(parameter.values))
    if parameter.kind == "DISCRETE":
        return ConfigSpace.OrdinalHyperparameter(name, list(parameter.values))
    kind = ConfigSpace.UniformIntegerHyperparameter if parameter.kind == "INTEGER" else \
        ConfigSpace.UniformFloatHyperparameter
    return kind(name, parameter.minimum, parameter.maximum, log=parameter.is_log)


def to_smac(parameter, value):
    """Converts `value` to the representation of ConfigSpace."""
    return parameter.mirror(value)


def from_smac(parameter, value):
    """Returns the inverse of `to_smac`."""
    return str(value) if parameter.kind == "CATEGORICAL" else parameter.mirror(parameter.legal(value))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit("usage: smac_peer.py")
    warnings.simplefilter("ignore")
    peer = SmacPeer("smac-hpo", f"smac {importlib.metadata.version('smac')}")
    try:
        tunesmith_peer.serve(peer)
    finally:
        peer.close()
