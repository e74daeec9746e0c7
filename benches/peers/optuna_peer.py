"""Adapter of Optuna: `optuna_peer.py tpe|gp|cmaes|random|nsgaii [hyperband]`. Written for Optuna 5.0.0.

| parameter | in Optuna |
| --- | --- |
| DOUBLE | `FloatDistribution`, `log=True` on a log scale |
| INTEGER | `IntDistribution`, `log=True` on a log scale |
| DISCRETE | `IntDistribution` over the indices of the values, which keeps their order and drops their distances |
| CATEGORICAL | `CategoricalDistribution` |
| reverse log scale | the mirrored value `min + max - x` on a log scale |

Conditional parameters, with tpe and random: the trial is created without a space, and each active parameter is requested
by its `suggest_` function after its parent, which is define-by-run as Optuna intends it. Without conditional parameters
the space is fixed beforehand.

Several metrics, all minimised, with tpe, random, nsgaii and gp (whose sampler then uses the hypervolume improvement).
Constraints, with tpe, gp and nsgaii: `Trial.set_constraint`. A failed trial has the state `FAIL`, which the samplers
ignore. Foreign trials are added with `add_trial`.

A trial that was stopped has the state `PRUNED`. With `hyperband`, `HyperbandPruner` decides after each report
(`--early-stopping optimizer`), from 1 report to as many as the first finished trial had, and the sampler sees the trials of one bracket.

The budget is not used. Every sampler has the defaults of Optuna (`CmaEsSampler` draws categories independently and at
random) and the seed of the study. Points come from `Study.ask`; storage is in memory.
"""

import sys
import warnings

import optuna_space
import tunesmith_peer

tunesmith_peer.prepare()

import optuna  # noqa: E402

SAMPLERS = {
    "tpe": optuna.samplers.TPESampler,
    "gp": optuna.samplers.GPSampler,
    "cmaes": optuna.samplers.CmaEsSampler,
    "random": optuna.samplers.RandomSampler,
    "nsgaii": optuna.samplers.NSGAIISampler,
}
TAKES_CONSTRAINTS = ("tpe", "gp", "nsgaii")
TAKES_METRICS = ("tpe", "gp", "random", "nsgaii")
# The other samplers draw conditional parameters at random, so they are not compared on them.
TAKES_CONDITIONS = ("tpe", "random")


class OptunaPeer(tunesmith_peer.Peer):
    """One of the samplers of Optuna."""

    def __init__(self, sampler, hyperband):
        super().__init__(f"optuna-{sampler}" + "-hyperband" * hyperband, f"optuna {optuna.__version__}")
        self.sampler = sampler
        self.hyperband = hyperband

    def create(self, study):
        study.require(metrics=sys.maxsize if self.sampler in TAKES_METRICS else 1,
                      constraints=self.sampler in TAKES_CONSTRAINTS,
                      conditions=self.sampler in TAKES_CONDITIONS)
        self.problem = study
        self.pending = {}
        self.study = optuna.create_study(
            study_name=f"study-{study.seed32}",  # Brackets depend on it.
            sampler=SAMPLERS[self.sampler](seed=study.seed32),
            pruner=optuna.pruners.HyperbandPruner() if self.hyperband else optuna.pruners.NopPruner(),
            directions=["minimize"] * len(study.metrics))
        self.distributions = {parameter.name: optuna_space.distribution(optuna.distributions, parameter) for parameter in study.free}

    def suggest(self, trials):
        points = []
        conditional = any(parameter.parent is not None for parameter in self.problem.parameters)
        for trial in trials:
            running = self.study.ask() if conditional else self.study.ask(self.distributions)
            self.pending[trial] = running
            if conditional:
                points.append(optuna_space.define_by_run(self.problem, running))
            else:
                points.append({parameter.name: optuna_space.from_optuna(parameter, running.params[parameter.name])
                               for parameter in self.problem.free})
        return points

    def report(self, trial, step, loss):
        if not self.hyperband:
            return super().report(trial, step, loss)
        running = self.pending[trial]
        running.report(loss, step)
        return running.should_prune()

    def complete(self, result):
        running = self.pending.pop(result.trial, None)
        constraints = {str(at): value for at, value in enumerate(result.constraints)}
        if running is None:
            failed = result.losses is None
            self.study.add_trial(optuna.trial.create_trial(
                state=optuna.trial.TrialState.FAIL if failed else optuna.trial.TrialState.COMPLETE,
                values=result.losses,
                params={parameter.name: optuna_space.to_optuna(parameter, result.parameters[parameter.name])
                        for parameter in self.problem.free if parameter.name in result.parameters},
                distributions={name: kind for name, kind in self.distributions.items() if name in result.parameters},
                constraints=constraints))
        elif result.losses is None:
            self.study.tell(running, state=optuna.trial.TrialState.FAIL)
        elif result.stopped_early:
            if not self.hyperband:
                running.report(result.losses[0], 1)  # The value of a pruned trial is that of its last report.
            self.study.tell(running, state=optuna.trial.TrialState.PRUNED)
        else:
            for name, value in constraints.items():
                running.set_constraint(name, value)
            self.study.tell(running, result.losses)


if __name__ == "__main__":
    if sys.argv[1:2] == [] or sys.argv[1] not in SAMPLERS or sys.argv[2:] not in ([], ["hyperband"]):
        sys.exit(f"usage: optuna_peer.py {'|'.join(SAMPLERS)} [hyperband]")
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    tunesmith_peer.serve(OptunaPeer(sys.argv[1], hyperband=len(sys.argv) > 2))
