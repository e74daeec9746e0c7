"""Adapter of Open Source Vizier: `vizier_peer.py [default|gp-bandit]`. Written for google-vizier 0.1.24.

`default` is the designer that its service uses for studies without an algorithm, `VizierGPUCBPEBandit`; `gp-bandit` is
`VizierGPBandit`. Both run in this process, without a service.

| parameter | in Vizier |
| --- | --- |
| DOUBLE | `add_float_param` |
| INTEGER | `add_int_param` |
| DISCRETE | `add_discrete_param` |
| CATEGORICAL | `add_categorical_param` |
| any scale | the scale of the same name, including reverse log |

Several metrics: one `MetricInformation` each. Constraints are unsupported: these designers do not model safety metrics.
A failed trial is completed with an infeasibility reason. Foreign trials are passed to `update` like all others.

The budget is not used. Designers have their defaults, the seed of the study and 64-bit numbers, as in the service. One
designer exists per study. By default it does not pad its arrays, so JAX traces and compiles for each number of trials
and each kind of space, which is most of the time of a suggestion (docs/experiments/061). Compiled programs are therefore
cached on disk, in `jax-cache` of the virtual environment or in `JAX_COMPILATION_CACHE_DIR`, for later studies with equal
numbers of trials and parameters; `JAX_ENABLE_COMPILATION_CACHE=false` disables the cache. Suggestions are the same with
and without it. Compiled programs in memory are cleared when the process exceeds 4 GiB.
"""

import os
import random
import sys

import tunesmith_peer

tunesmith_peer.prepare()
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(sys.prefix, "jax-cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import importlib.metadata  # noqa: E402
import logging  # noqa: E402
import warnings  # noqa: E402

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)  # As the service does.

import numpy  # noqa: E402
from vizier import algorithms  # noqa: E402
from vizier import pyvizier  # noqa: E402
# The public module vizier.algorithms.designers imports all designers and packages that these two do not use.
from vizier._src.algorithms.designers import gp_bandit  # noqa: E402
from vizier._src.algorithms.designers import gp_ucb_pe  # noqa: E402

DESIGNERS = {
    "default": lambda problem, seed: gp_ucb_pe.VizierGPUCBPEBandit(problem, rng=jax.random.PRNGKey(seed)),
    "gp-bandit": lambda problem, seed: gp_bandit.VizierGPBandit.from_problem(problem, seed=seed),
}
SCALES = {
    "UNIT_LINEAR_SCALE": pyvizier.ScaleType.LINEAR,
    "UNIT_LOG_SCALE": pyvizier.ScaleType.LOG,
    "UNIT_REVERSE_LOG_SCALE": pyvizier.ScaleType.REVERSE_LOG,
}
MEMORY_LIMIT_BYTES = 4 << 30


class VizierPeer(tunesmith_peer.Peer):
    """One of the designers of Vizier."""

    def __init__(self, designer):
        super().__init__("vizier" if designer == "default" else f"vizier-{designer}",
                         f"google-vizier {importlib.metadata.version('google-vizier')}")
        self.factory = DESIGNERS[designer]

    def create(self, study):
        study.require(metrics=sys.maxsize)
        random.seed(study.seed)
        numpy.random.seed(study.seed32)
        self.problem = study
        problem = pyvizier.ProblemStatement()
        root = problem.search_space.root
        for parameter in study.free:
            if parameter.kind == "CATEGORICAL":
                root.add_categorical_param(parameter.name, list(parameter.values))
            elif parameter.kind == "DISCRETE":
                root.add_discrete_param(parameter.name, list(parameter.values), scale_type=SCALES[parameter.scale])
            else:
                add = root.add_int_param if parameter.kind == "INTEGER" else root.add_float_param
                add(parameter.name, parameter.minimum, parameter.maximum, scale_type=SCALES[parameter.scale])
        for metric in study.metrics:
            problem.metric_information.append(pyvizier.MetricInformation(
                name=metric.name, goal=pyvizier.ObjectiveMetricGoal[metric.goal]))
        self.designer = self.factory(problem, study.seed32)
        self.pending = {}
        self.completed = []

    def suggest(self, trials):
        if resident_bytes() > MEMORY_LIMIT_BYTES:
            jax.clear_caches()
        active = [pyvizier.Trial(id=trial, parameters=parameters) for trial, parameters in self.pending.items()]
        self.designer.update(algorithms.CompletedTrials(self.completed), algorithms.ActiveTrials(active))
        self.completed = []
        points = []
        for trial, suggestion in zip(trials, self.designer.suggest(len(trials))):
            self.pending[trial] = suggestion.parameters
            points.append({parameter.name: suggestion.parameters[parameter.name].value
                           for parameter in self.problem.free})
        return points

    def complete(self, result):
        self.pending.pop(result.trial, None)
        trial = pyvizier.Trial(id=result.trial, parameters={
            parameter.name: result.parameters[parameter.name] for parameter in self.problem.free})
        if result.losses is None:
            trial.complete(pyvizier.Measurement(), infeasibility_reason=result.infeasible or "failed")
        else:
            trial.complete(pyvizier.Measurement(metrics={
                metric.name: metric.sign * loss for metric, loss in zip(self.problem.metrics, result.losses)}))
        self.completed.append(trial)


def resident_bytes():
    """Returns the resident memory of this process; 0 if the system does not report it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) == 2 else "default"
    if len(sys.argv) > 2 or chosen not in DESIGNERS:
        sys.exit(f"usage: vizier_peer.py [{'|'.join(DESIGNERS)}]")
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    tunesmith_peer.serve(VizierPeer(chosen))
