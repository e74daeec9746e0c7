"""The protocol of `tunesmith bench --external`, shared by all adapters of libraries.

`tunesmith bench --external 'NAME=COMMAND'` starts COMMAND and exchanges JSON lines with it: a request on standard input
and one response on standard output, in order (`examples/external_optimizer/README.md` describes every message). An
adapter subclasses `Peer` and passes an instance to `serve`:

    import tunesmith_peer
    tunesmith_peer.prepare()          # before the import of the library: one thread, standard output reserved

    class MyPeer(tunesmith_peer.Peer):
        def create(self, study): ...
        def suggest(self, trials): ...
        def complete(self, result): ...

    tunesmith_peer.serve(MyPeer("mine", "mine 1.0"))

Not included: code for a specific library. Only the standard library is imported.
"""

import dataclasses
import json
import math
import os
import sys
import traceback

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
                    "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS")
_responses = None


class Unsupported(Exception):
    """Raised by `Peer.create`: the library does not support the problem. The text is the reason."""


class ProtocolError(Exception):
    """An invalid request; the response is an error, without a traceback on standard error."""


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter of the search space.

    `minimum` and `maximum` are inclusive, for DOUBLE and INTEGER only. `values` are the possible values of a DISCRETE
    (increasing numbers) or CATEGORICAL (text) parameter. `scale` is empty for CATEGORICAL. A conditional parameter has
    a value only in points where the parameter `parent` has one of `parent_values`.
    """
    name: str
    kind: str
    scale: str
    minimum: float | int | None
    maximum: float | int | None
    values: tuple
    parent: str | None = None
    parent_values: tuple = ()

    @classmethod
    def parse(cls, message):
        """Parses a parameter of a `create` request."""
        kind = message["type"]
        if kind not in ("DOUBLE", "INTEGER", "DISCRETE", "CATEGORICAL"):
            raise ValueError(f"parameter {message['name']} has unknown type {kind}")
        number = int if kind == "INTEGER" else float
        bounds = [number(message[bound]) if kind in ("DOUBLE", "INTEGER") else None for bound in ("min", "max")]
        values = message.get("values", ())
        values = tuple(sorted(map(float, values))) if kind == "DISCRETE" else tuple(values)
        scale = "" if kind == "CATEGORICAL" else message.get("scale", "UNIT_LINEAR_SCALE")
        condition = message.get("condition") or {"parent": None, "values": ()}
        return cls(message["name"], kind, scale, *bounds, values, condition["parent"], tuple(condition["values"]))

    def is_active(self, point):
        """Whether the parameter is active at `point`, which contains its parent if that is active."""
        return self.parent is None or point.get(self.parent) in self.parent_values

    @property
    def is_log(self):
        """Whether the library uses a log scale, of the value or of the mirrored value."""
        return self.scale in ("UNIT_LOG_SCALE", "UNIT_REVERSE_LOG_SCALE")

    @property
    def is_fixed(self):
        """Whether there is only one value, which many libraries reject."""
        return len(self.values) == 1 if self.values else self.minimum == self.maximum

    @property
    def fixed_value(self):
        """The value of a parameter that `is_fixed`."""
        return self.values[0] if self.values else self.minimum

    def mirror(self, value):
        """`minimum + maximum - value` on a reverse log scale, else the value itself; its own inverse.

        The range is unchanged, and the reverse log scale becomes a log scale, which libraries support.
        """
        if self.scale == "UNIT_REVERSE_LOG_SCALE" and self.minimum is not None:
            return min(max(self.minimum + self.maximum - value, self.minimum), self.maximum)
        return value

    def index(self, value):
        """Returns the index of `value` in `values`; for a DISCRETE parameter, of the nearest one."""
        if self.kind == "CATEGORICAL":
            return self.values.index(value)
        return min(range(len(self.values)), key=lambda at: abs(self.values[at] - value))

    def legal(self, value):
        """Returns the value of the parameter nearest to `value`, in its JSON type; this corrects rounding errors."""
        if self.kind == "CATEGORICAL":
            return self.values[self.values.index(value)]
        if self.kind == "DISCRETE":
            return self.values[self.index(float(value))]
        if not math.isfinite(value):
            raise ValueError(f"the library suggests {value} for parameter {self.name}")
        if self.kind == "INTEGER":
            return min(max(int(round(value)), self.minimum), self.maximum)
        return min(max(float(value), self.minimum), self.maximum)

    # For libraries that only support plain numbers.

    def transformed_bounds(self):
        """Returns the range of `transformed`; for an INTEGER on a log scale it is wider by half a step at each end."""
        if not self.is_log:
            return float(self.minimum), float(self.maximum)
        half = 0.5 if self.kind == "INTEGER" else 0.0
        return math.log(self.minimum - half), math.log(self.maximum + half)

    def transformed(self, value):
        """Returns `value` of a DOUBLE or INTEGER, mirrored, and its natural logarithm on a log scale."""
        value = self.mirror(value)
        return math.log(value) if self.is_log else float(value)

    def restored(self, number):
        """Returns the inverse of `transformed`, with the nearest legal value."""
        return self.legal(self.mirror(self.legal(math.exp(number) if self.is_log else number)))


@dataclasses.dataclass(frozen=True)
class Metric:
    """A metric; `goal` is MINIMIZE or MAXIMIZE."""
    name: str
    goal: str

    @property
    def sign(self):
        """The factor of a value that makes smaller better: 1 or -1."""
        return -1.0 if self.goal == "MAXIMIZE" else 1.0


@dataclasses.dataclass(frozen=True)
class Study:
    """The contents of a `create` request: the space, the metrics, and the number of trials.

    In `parameters` each parent comes before its children.
    """
    parameters: tuple
    metrics: tuple
    constraints: int
    seed: int
    budget: int
    parallel: int

    @classmethod
    def parse(cls, request):
        """Parses a `create` request."""
        problem = request["problem"]
        return cls(tuple(parents_first(map(Parameter.parse, problem["parameters"]))),
                   tuple(Metric(metric["name"], metric["goal"]) for metric in problem["metrics"]),
                   int(problem.get("constraints", 0)), int(request["seed"]), int(request["budget"]),
                   int(request.get("parallel", 1)))

    @property
    def seed32(self):
        """The seed modulo 2^31, which every library accepts."""
        return self.seed % (1 << 31)

    @property
    def free(self):
        """The parameters with more than one value."""
        return [parameter for parameter in self.parameters if not parameter.is_fixed]

    def complete_point(self, point):
        """Returns the active parameters of `point` in order, with fixed values, each converted to a legal value."""
        complete = {}
        for parameter in self.parameters:
            if parameter.is_active(complete):
                complete[parameter.name] = parameter.fixed_value if parameter.is_fixed \
                    else parameter.legal(point[parameter.name])
        return complete

    def require(self, *, metrics=1, constraints=False, conditions=False):
        """Raises `Unsupported` for more metrics than `metrics`, or for unsupported constraints or conditions."""
        conditional = [parameter.name for parameter in self.parameters if parameter.parent is not None]
        if conditional and not conditions:
            raise Unsupported(f"conditional parameters ({', '.join(conditional)})")
        if len(self.metrics) > metrics:
            raise Unsupported(f"{len(self.metrics)} metrics; takes at most {metrics}")
        if self.constraints and not constraints:
            raise Unsupported("constraints")


def parents_first(parameters):
    """Returns `parameters` in their order, but each after its parent."""
    waiting, ordered = list(parameters), []
    while waiting:
        known = {parameter.name for parameter in ordered}
        ready = [parameter for parameter in waiting if parameter.parent is None or parameter.parent in known]
        if not ready:
            raise ValueError(f"parameter {waiting[0].name} has no parent {waiting[0].parent}")
        ordered += ready
        waiting = [parameter for parameter in waiting if parameter not in ready]
    return ordered


@dataclasses.dataclass(frozen=True)
class Result:
    """The contents of a `complete` request.

    `losses` are the metrics in order, in the sign in which smaller is better, or `None` if the trial has no values.
    `constraints` are at most 0 if satisfied; empty if the trial has none. A trial that violates a constraint is
    `infeasible` but has values; one that is `infeasible` without `losses` has failed. The loss of a trial that was
    `stopped_early` is that of its last report.
    """
    trial: int
    parameters: dict
    losses: list | None
    constraints: list
    infeasible: str | None
    stopped_early: bool

    @classmethod
    def parse(cls, request, study):
        """Parses a `complete` request of `study`."""
        given = request.get("metrics") or {}
        losses = [metric.sign * float(given[metric.name]) for metric in study.metrics] if given else None
        if losses is None and request.get("infeasible") is None:
            raise ValueError(f"trial {request['trial']} has neither metrics nor a reason why it is infeasible")
        return cls(request["trial"], study.complete_point(request["parameters"]), losses,
                   [float(value) for value in request.get("constraints") or []], request.get("infeasible"),
                   bool(request.get("stopped_early")))


class Peer:
    """An adapter of a library. One object runs many studies in sequence."""

    def __init__(self, name, version):
        """`name` and `version` are the response to `create`, for example `optuna-tpe` and `optuna 5.0.0`."""
        self.name = name
        self.version = version

    def create(self, study):
        """Starts `study` and drops the previous one. Raises `Unsupported` if the library does not support it."""
        raise NotImplementedError

    def suggest(self, trials):
        """Returns a point (dictionary from parameter name to value) for each id of `trials`; fewer if none is left.

        Fixed parameters may be missing, and values may have rounding errors; `serve` corrects both.
        """
        raise NotImplementedError

    def complete(self, result):
        """Adds the result of a trial, which may be a foreign one that this peer did not suggest."""
        raise NotImplementedError

    def report(self, trial, step, loss):
        """Adds the loss of a running trial at `step` and returns whether to stop the trial."""
        raise Unsupported("it has no early stopping of its own")


def prepare():
    """Limits numerical libraries to one thread, and redirects all standard output except responses to stderr.

    Call it before the import of such a library. Further calls have no effect.
    """
    global _responses
    if _responses is not None:
        return
    for variable in THREAD_VARIABLES:
        os.environ[variable] = "1"
    sys.stdout.flush()
    _responses = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)


def serve(peer):
    """Serves requests from standard input with `peer` until the end of the input."""
    prepare()
    study = None
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            request = json.loads(line)
            method = request["method"]
            if method == "create":
                study = None
                new_study = Study.parse(request)
                if new_study.free:
                    peer.create(new_study)
                study = new_study
                response = {"name": peer.name, "version": peer.version}
            elif method not in ("suggest", "complete", "report"):
                raise ProtocolError(f"unknown method {method}")
            elif study is None:
                raise ProtocolError(f"{method} without a study")
            elif method == "suggest":
                trials = request["trials"]
                points = peer.suggest(trials) if study.free else [{}] * len(trials)
                response = {"suggestions": [study.complete_point(point) for point in points]}
            elif method == "report":
                loss = study.metrics[0].sign * float(request["value"])
                response = {"stop": peer.report(request["trial"], request["step"], loss) if study.free else False}
            else:
                result = Result.parse(request, study)
                if study.free:
                    peer.complete(result)
                response = {}
        except Unsupported as reason:
            response = {"unsupported": str(reason)}
        except ProtocolError as error:
            response = {"error": str(error)}
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # The next study may succeed. A Rust panic is not an Exception.
            traceback.print_exc()
            response = {"error": f"{type(error).__name__}: {error}"}
        _responses.write(json.dumps(response) + "\n")
        _responses.flush()
