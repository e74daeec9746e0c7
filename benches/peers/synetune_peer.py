"""Adapter of Syne Tune's conformal quantile regression: `synetune_peer.py [cqr]`. Written for Syne Tune 0.16.0.

The method: Salinas et al., "Optimizing Hyperparameters with Conformal Quantile Regression", ICML 2023.

| parameter | in Syne Tune |
| --- | --- |
| DOUBLE | `uniform`, `loguniform` on a log scale |
| INTEGER | `randint`, `lograndint` on a log scale |
| DISCRETE | `ordinal` with kind `equal`, which keeps the order of the values and drops their distances |
| CATEGORICAL | `choice` |
| reverse log scale | the mirrored value `min + max - x` on a log scale |

One metric, minimised; constraints and conditional parameters are unsupported. The searcher takes no failed trials, so they
are dropped. Foreign trials are added like its own.

The budget is not used. The scheduler `CQR` has its defaults (5 random trials first) and the seed of the study,
which is that of NumPy's generator as well.
"""

import logging
import sys
import warnings
from importlib.metadata import version

import tunesmith_peer

tunesmith_peer.prepare()

import numpy  # noqa: E402
from syne_tune import config_space  # noqa: E402
from syne_tune.optimizer.schedulers.searchers.conformal.conformal_quantile_regression_searcher import (  # noqa: E402
    ConformalQuantileRegression,
)


class SyneTunePeer(tunesmith_peer.Peer):
    """The searcher of the scheduler `CQR`, which adds nothing to it for trials that report once."""

    def create(self, study):
        study.require()
        self.problem = study
        # The regression and the sampler draw from the generator of NumPy.
        numpy.random.seed(study.seed32)
        self.searcher = ConformalQuantileRegression({parameter.name: domain(parameter) for parameter in study.free},
                                                    random_seed=study.seed32)

    def suggest(self, trials):
        points = (self.searcher.suggest() for _ in trials)
        return [{parameter.name: parameter.mirror(point[parameter.name]) for parameter in self.problem.free}
                for point in points]

    def complete(self, result):
        if result.losses is not None:
            config = {parameter.name: parameter.mirror(result.parameters[parameter.name])
                      for parameter in self.problem.free}
            self.searcher.on_trial_complete(result.trial, config, result.losses[0])


def domain(parameter):
    """Returns the domain of `parameter`."""
    if parameter.kind == "DOUBLE":
        kind = config_space.loguniform if parameter.is_log else config_space.uniform
        return kind(parameter.minimum, parameter.maximum)
    if parameter.kind == "INTEGER":
        kind = config_space.lograndint if parameter.is_log else config_space.randint
        return kind(parameter.minimum, parameter.maximum)
    if parameter.kind == "DISCRETE":
        return config_space.ordinal(list(parameter.values), kind="equal")
    return config_space.choice(list(parameter.values))


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["cqr"]):
        sys.exit("usage: synetune_peer.py [cqr]")
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    tunesmith_peer.serve(SyneTunePeer("synetune-cqr", f"syne-tune {version('syne-tune')}"))
