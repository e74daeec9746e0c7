"""Adapter of Rustuna, Optuna's samplers in Rust: `rustuna_peer.py tpe|cmaes|random|nsgaii`. Written for Rustuna 0.2.0.

| parameter | in Rustuna |
| --- | --- |
| DOUBLE | `suggest_float`, `log=True` on a log scale |
| INTEGER | `suggest_int`, `log=True` on a log scale |
| DISCRETE | `suggest_int` over the indices of the values, which keeps their order and drops their distances |
| CATEGORICAL | `suggest_categorical` |
| reverse log scale | the mirrored value `min + max - x` on a log scale |

Every trial is created without a space, and each active parameter is requested after its parent. Conditional parameters
with tpe and random. Several metrics, all minimised, with tpe, random and nsgaii. Constraints, with tpe and nsgaii:
`Trial.set_constraint`. A failed trial has the state `FAIL`, which the samplers ignore. Foreign trials are added with
`add_trial`; the library has no public way to add their constraints, so a study with constraints rejects them.

The budget is not used. Every sampler has the defaults of Rustuna and the seed of the study. Storage is in memory.
"""

import sys

import optuna_space
import tunesmith_peer

tunesmith_peer.prepare()

import rustuna  # noqa: E402

SAMPLERS = {
    "tpe": rustuna.samplers.TPESampler,
    "cmaes": rustuna.samplers.CmaEsSampler,
    "random": rustuna.samplers.RandomSampler,
    "nsgaii": rustuna.samplers.NSGAIISampler,
}
TAKES_CONSTRAINTS = ("tpe", "nsgaii")
TAKES_METRICS = ("tpe", "random", "nsgaii")
TAKES_CONDITIONS = ("tpe", "random")


class RustunaPeer(tunesmith_peer.Peer):
    """One of the samplers of Rustuna."""

    def __init__(self, sampler, version):
        super().__init__(f"rustuna-{sampler}", f"rustuna {version}")
        self.sampler = sampler

    def create(self, study):
        study.require(metrics=sys.maxsize if self.sampler in TAKES_METRICS else 1,
                      constraints=self.sampler in TAKES_CONSTRAINTS,
                      conditions=self.sampler in TAKES_CONDITIONS)
        self.problem = study
        self.pending = {}
        self.study = rustuna.create_study(
            sampler=SAMPLERS[self.sampler](seed=study.seed32),
            directions=["minimize"] * len(study.metrics))

    def suggest(self, trials):
        points = []
        for trial in trials:
            running = self.study.ask()
            self.pending[trial] = running
            points.append(optuna_space.define_by_run(self.problem, running))
        return points

    def complete(self, result):
        running = self.pending.pop(result.trial, None)
        states = rustuna.trial.TrialState
        state = states.FAIL if result.losses is None else states.COMPLETE
        if running is None:
            if result.constraints:
                raise ValueError("Rustuna takes no constraints of trials that it did not suggest")
            known = [parameter for parameter in self.problem.free if parameter.name in result.parameters]
            self.study.add_trial(rustuna.create_trial(
                state=state,
                values=result.losses,
                params={parameter.name: optuna_space.to_optuna(parameter, result.parameters[parameter.name])
                        for parameter in known},
                distributions={parameter.name: optuna_space.distribution(rustuna.distributions, parameter)
                               for parameter in known}))
            return
        for at, value in enumerate(result.constraints):
            running.set_constraint(str(at), value)
        self.study.tell(running.number, result.losses, state)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in SAMPLERS:
        sys.exit(f"usage: rustuna_peer.py {'|'.join(SAMPLERS)}")
    from importlib.metadata import version
    tunesmith_peer.serve(RustunaPeer(sys.argv[1], version("rustuna")))
