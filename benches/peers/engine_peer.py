"""Adapter of the Python package of Tunesmith: `engine_peer.py ALGORITHM [SERVER]`, such as `engine_peer.py tpe`.

Without SERVER it measures the search in process, otherwise the client of the server at this address. ALGORITHM is that of
`tunesmith.Optimizer`. The package is installed or on `PYTHONPATH`. Every parameter kind, scale, condition, constraint and
number of metrics is that of the problem, and foreign trials are told as such.
"""

import sys
import uuid

import tunesmith_peer

tunesmith_peer.prepare()

import tunesmith  # noqa: E402

SCALES = {"UNIT_LINEAR_SCALE": "linear", "UNIT_LOG_SCALE": "log", "UNIT_REVERSE_LOG_SCALE": "reverse_log"}


class EnginePeer(tunesmith_peer.Peer):
    """The search in process, or that of a server."""

    def __init__(self, algorithm, server):
        super().__init__(f"python-{algorithm}" + ("-http" if server else ""), f"tunesmith {tunesmith.__version__}")
        self.algorithm = algorithm
        self.client = tunesmith.Client(server) if server else None

    def create(self, study):
        children = [parameter for parameter in study.parameters if parameter.parent is not None]

        def spec(parameter):
            scale = SCALES.get(parameter.scale)
            if parameter.kind == "CATEGORICAL":
                own = tunesmith.categorical(parameter.name, parameter.values)
            elif parameter.kind == "DISCRETE":
                own = tunesmith.discrete(parameter.name, parameter.values, scale=scale)
            else:
                kind = tunesmith.integer if parameter.kind == "INTEGER" else tunesmith.double
                own = kind(parameter.name, parameter.minimum, parameter.maximum, scale=scale)
            for child in children:
                if child.parent == parameter.name:
                    own = own.when(child.parent_values, spec(child))
            return own

        metrics = [tunesmith.minimize(metric.name) for metric in study.metrics]
        metrics += [tunesmith.minimize(f"constraint{at}", safety_threshold=0.0) for at in range(study.constraints)]
        self.names = [metric.name for metric in metrics]
        parameters = [spec(parameter) for parameter in study.parameters if parameter not in children]
        settings = {"algorithm": self.algorithm, "seed": study.seed % (1 << 63)}
        try:
            if self.client is None:
                self.search = tunesmith.Optimizer(parameters, metrics, **settings)
            else:
                self.search = self.client.create_study(f"s{uuid.uuid4().hex}", parameters, metrics, **settings)
        except tunesmith.InvalidArgument as refusal:
            raise tunesmith_peer.Unsupported(refusal.message) from None
        self.running = {}

    def suggest(self, trials):
        suggested = self.search.ask(len(trials))
        self.running.update(zip(trials, suggested))
        return [trial.parameters for trial in suggested]

    def complete(self, result):
        trial = self.running.pop(result.trial, None) or result.parameters
        if result.losses is None:
            self.search.tell(trial, infeasible=result.infeasible)
        else:
            self.search.tell(trial, dict(zip(self.names, result.losses + result.constraints)))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: engine_peer.py ALGORITHM [SERVER]")
    tunesmith_peer.serve(EnginePeer(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else None))
