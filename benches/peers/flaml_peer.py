"""Adapter of FLAML's BlendSearch and CFO: `flaml_peer.py blendsearch|cfo`. Written for FLAML 2.7.0.

| parameter | in FLAML |
| --- | --- |
| DOUBLE | `tune.uniform`, `tune.loguniform` on a log scale |
| INTEGER | `tune.randint`, `tune.lograndint` on a log scale, whose upper ends are exclusive |
| DISCRETE | `tune.choice`, which FLAML orders if all values are numbers |
| CATEGORICAL | `tune.choice` |
| reverse log scale | the mirrored value `min + max - x` on a log scale |

One metric, minimised; constraints and conditional parameters are unsupported. A failed trial is reported as an error.
Foreign trials are ignored: FLAML takes evaluated points before the first trial only.

The budget is passed as `num_samples`. No cost of trials is stated, so all cost the same, and the search begins in the
middle of the space. Everything else has its default. As in `tune.run`, a trial is requested up to 100 times until the
search has one; then the study ends.
"""

import logging
import sys
import warnings
from importlib.metadata import version

import tunesmith_peer

tunesmith_peer.prepare()

from flaml import CFO, BlendSearch, tune  # noqa: E402

SEARCHES = {"blendsearch": BlendSearch, "cfo": CFO}

# `max_failure` of `tune.run`.
REQUESTS = 100


class FlamlPeer(tunesmith_peer.Peer):
    """One of the search algorithms of FLAML."""

    def __init__(self, search):
        super().__init__(f"flaml-{search}", f"flaml {version('flaml')}")
        self.kind = SEARCHES[search]

    def create(self, study):
        study.require()
        self.problem = study
        self.requested = 0
        self.pending = {}
        self.search = self.kind(metric="loss", mode="min", seed=study.seed32, num_samples=study.budget,
                                space={parameter.name: domain(parameter) for parameter in study.free})

    def suggest(self, trials):
        points = []
        for trial in trials:
            identifier, config = self.next()
            if config is None:
                break
            self.pending[trial] = (identifier, config)
            points.append({parameter.name: parameter.mirror(config[parameter.name])
                           for parameter in self.problem.free})
        return points

    def next(self):
        """Returns a trial of the library and its configuration, which is None if the search has none."""
        for _ in range(REQUESTS):
            self.requested += 1
            identifier = str(self.requested)
            config = self.search.suggest(identifier)
            if config is not None:
                return identifier, config
        return None, None

    def complete(self, result):
        if result.trial not in self.pending:
            return
        identifier, config = self.pending.pop(result.trial)
        if result.losses is None:
            self.search.on_trial_complete(identifier, {"config": config}, error=True)
        else:
            self.search.on_trial_complete(identifier, {"loss": result.losses[0], "config": config})


def domain(parameter):
    """Returns the domain of `parameter`."""
    if parameter.kind == "DOUBLE":
        kind = tune.loguniform if parameter.is_log else tune.uniform
        return kind(parameter.minimum, parameter.maximum)
    if parameter.kind == "INTEGER":
        kind = tune.lograndint if parameter.is_log else tune.randint
        return kind(parameter.minimum, parameter.maximum + 1)
    return tune.choice(list(parameter.values))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in SEARCHES:
        sys.exit(f"usage: flaml_peer.py {'|'.join(SEARCHES)}")
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    tunesmith_peer.serve(FlamlPeer(sys.argv[1]))
