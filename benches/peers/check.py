#!/usr/bin/env python3
"""Checks the responses of an adapter to the protocol of `tunesmith bench --external`.

Usage: benches/peers/check.py COMMAND...     for example: benches/peers/check.py benches/peers/run.sh optuna tpe
       benches/peers/check.py --quick COMMAND...      for slow libraries: no repetitions, short studies
       benches/peers/check.py --time N COMMAND...     seconds per suggestion and memory over N trials instead

It checks points of every kind and scale, foreign trials, an infeasible trial, a batch of three, a second study in the
same process, several metrics, constraints, conditional parameters, and the response to an invalid request. The exit
status is 0 if all checks pass. Standard library only.
"""

import json
import math
import subprocess
import sys
import time

MIXED = [
    {"name": "linear", "type": "DOUBLE", "min": -5.0, "max": 5.0, "scale": "UNIT_LINEAR_SCALE"},
    {"name": "log", "type": "DOUBLE", "min": 1e-5, "max": 0.1, "scale": "UNIT_LOG_SCALE"},
    {"name": "reverse", "type": "DOUBLE", "min": 0.1, "max": 0.999, "scale": "UNIT_REVERSE_LOG_SCALE"},
    {"name": "integer", "type": "INTEGER", "min": -3, "max": 7, "scale": "UNIT_LINEAR_SCALE"},
    {"name": "integer_log", "type": "INTEGER", "min": 1, "max": 300, "scale": "UNIT_LOG_SCALE"},
    {"name": "integer_reverse", "type": "INTEGER", "min": 1, "max": 64, "scale": "UNIT_REVERSE_LOG_SCALE"},
    {"name": "discrete", "type": "DISCRETE", "values": [0.1, 0.2, 0.5, 7.0], "scale": "UNIT_LINEAR_SCALE"},
    {"name": "discrete_log", "type": "DISCRETE", "values": [0.001, 0.01, 0.1], "scale": "UNIT_LOG_SCALE"},
    {"name": "category", "type": "CATEGORICAL", "values": ["a", "b", "c d"]},
    {"name": "fixed", "type": "DOUBLE", "min": 2.0, "max": 2.0, "scale": "UNIT_LINEAR_SCALE"},
]
FOREIGN = [
    {"linear": 5.0, "log": 1e-5, "reverse": 0.999, "integer": 7, "integer_log": 300, "integer_reverse": 64,
     "discrete": 7.0, "discrete_log": 0.001, "category": "c d", "fixed": 2.0},
    {"linear": 0.25, "log": 0.1, "reverse": 0.1, "integer": -3, "integer_log": 1, "integer_reverse": 1,
     "discrete": 0.1, "discrete_log": 0.1, "category": "a", "fixed": 2.0},
]


CONDITIONAL = [
    {"name": "momentum", "type": "DOUBLE", "min": 0.5, "max": 0.99, "scale": "UNIT_LINEAR_SCALE",
     "condition": {"parent": "schedule", "values": ["cosine"]}},
    {"name": "optimizer", "type": "CATEGORICAL", "values": ["adam", "sgd"]},
    {"name": "rate", "type": "DOUBLE", "min": 1e-5, "max": 1.0, "scale": "UNIT_LOG_SCALE"},
    {"name": "schedule", "type": "CATEGORICAL", "values": ["constant", "cosine"],
     "condition": {"parent": "optimizer", "values": ["sgd"]}},
    {"name": "steps", "type": "INTEGER", "min": 1, "max": 4, "scale": "UNIT_LINEAR_SCALE"},
    {"name": "drop", "type": "DISCRETE", "values": [0.1, 0.5], "scale": "UNIT_LINEAR_SCALE",
     "condition": {"parent": "steps", "values": [2, 3]}},
    {"name": "only", "type": "INTEGER", "min": 5, "max": 5, "scale": "UNIT_LINEAR_SCALE",
     "condition": {"parent": "drop", "values": [0.5]}},
]


class Adapter:
    """The process under test."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        """Sends a request and returns its response, which may be an error."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the adapter ended with status {self.process.wait()} on {json.dumps(request)}")
        return json.loads(line)

    def do(self, **request):
        """As `ask`, but an error ends the check."""
        response = self.ask(**request)
        if "error" in response:
            sys.exit(f"error on {json.dumps(request)}: {response['error']}")
        return response

    def create(self, parameters, *, seed=7, budget=12, parallel=1, goals=("MINIMIZE",), constraints=0):
        """Starts a study with the metrics `m0`, `m1` and so on."""
        metrics = [{"name": f"m{at}", "goal": goal} for at, goal in enumerate(goals)]
        return self.do(method="create", seed=seed, budget=budget, parallel=parallel,
                       problem={"parameters": parameters, "metrics": metrics, "constraints": constraints})

    def suggest(self, parameters, trials):
        """Requests points and checks them."""
        points = self.do(method="suggest", trials=trials)["suggestions"]
        if len(points) != len(trials):
            sys.exit(f"requested {len(trials)} points of a space that is not exhausted, received {len(points)}")
        for point in points:
            check_point(parameters, point)
        return points

    def end(self):
        """Closes standard input, which must end the process."""
        self.process.stdin.close()
        if status := self.process.wait(timeout=60):
            sys.exit(f"the adapter ended with status {status} at the end of its input")


def check_point(parameters, point):
    """Ends the check unless `point` is in the space."""
    named = {parameter["name"]: parameter for parameter in parameters}

    def is_active(parameter):
        condition = parameter.get("condition")
        if condition is None:
            return True
        return is_active(named[condition["parent"]]) and point.get(condition["parent"]) in condition["values"]

    active = [parameter for parameter in parameters if is_active(parameter)]
    if sorted(point) != sorted(parameter["name"] for parameter in active):
        sys.exit(f"the parameters of the point {point} are not the active ones of the space")
    for parameter in active:
        value = point[parameter["name"]]
        kind = parameter["type"]
        if kind in ("DISCRETE", "CATEGORICAL"):
            fits = value in parameter["values"]
        else:
            fits = type(value) is int if kind == "INTEGER" else type(value) in (int, float)
            fits = fits and parameter["min"] <= value <= parameter["max"]
        if not fits:
            sys.exit(f"the value {value!r} of parameter {parameter['name']} is not in {parameter}")


def loss(point):
    """Returns a smooth function of the mixed space, to be minimised."""
    return (point["linear"] - 1.0) ** 2 + (math.log10(point["log"]) + 3.0) ** 2 + abs(point["integer"] - 2) \
        + point["discrete"] + (0.0 if point["category"] == "b" else 1.0)


def mixed_study(adapter, seed):
    """Runs twelve trials of a mixed space, with foreign trials, an infeasible one and a batch; returns the points."""
    adapter.create(MIXED, seed=seed, budget=14, parallel=3)
    for at, point in enumerate(FOREIGN):
        adapter.do(method="complete", trial=at + 1, parameters=point, metrics={"m0": loss(point)}, constraints=[])
    points = []
    for trial in range(3, 12):
        [point] = adapter.suggest(MIXED, [trial])
        points.append(point)
        if trial == 5:
            adapter.do(method="complete", trial=trial, parameters=point, constraints=[], infeasible="it crashed")
            continue
        adapter.do(method="complete", trial=trial, parameters=point, metrics={"m0": loss(point)}, constraints=[])
    batch = [12, 13, 14]
    pending = dict(zip(batch, adapter.suggest(MIXED, batch)))
    points += pending.values()
    for trial in (14, 12, 13):  # Not in the order of the request.
        point = pending[trial]
        adapter.do(method="complete", trial=trial, parameters=point, metrics={"m0": loss(point)}, constraints=[])
    # A foreign trial in the middle, one that is infeasible, and a value of another magnitude.
    adapter.do(method="complete", trial=20, parameters=FOREIGN[0], infeasible="no", constraints=[])
    adapter.do(method="complete", trial=21, parameters=FOREIGN[1], metrics={"m0": 1e9}, constraints=[])
    points += adapter.suggest(MIXED, [22])
    return points


def check_all(command, quick):
    """Every check, one line each; `quick` leaves out the repetitions and shortens studies."""
    adapter = Adapter(command)
    if "error" not in adapter.ask(method="suggest", trials=[1]):
        sys.exit("a suggest request before any study was not answered with an error")
    first = mixed_study(adapter, seed=7)
    print(f"mixed space: ok, {len(first)} points, {len({json.dumps(point) for point in first})} of them distinct")
    if not quick:
        second = mixed_study(adapter, seed=7)
        print("the same seed gives", "the same points" if first == second else "OTHER POINTS")
        if first == mixed_study(adapter, seed=8):
            sys.exit("different seeds give the same points")

    # The goal must be respected: compares the mean of the later points of one linear parameter.
    line = [{"name": "x", "type": "DOUBLE", "min": 0.0, "max": 1.0, "scale": "UNIT_LINEAR_SCALE"}]
    means = {}
    trials = 8 if quick else 30
    for goal in ("MINIMIZE", "MAXIMIZE"):
        adapter.create(line, seed=3, budget=trials, goals=(goal,))
        later = []
        for trial in range(1, trials + 1):
            [point] = adapter.suggest(line, [trial])
            adapter.do(method="complete", trial=trial, parameters=point, metrics={"m0": point["x"]}, constraints=[])
            later += [point["x"]] if trial > trials // 2 else []
        means[goal] = sum(later) / len(later)
    print(f"mean of x over the second half: {means['MINIMIZE']:.3f} when minimised, {means['MAXIMIZE']:.3f} when maximised")
    if means["MINIMIZE"] > means["MAXIMIZE"] + 0.1:
        sys.exit("the adapter optimises in the wrong direction")

    plane = line + [{**line[0], "name": "y"}]
    for title, goals, constraints in (("constraints", ("MINIMIZE",), 2), ("two metrics", ("MINIMIZE", "MAXIMIZE"), 0),
                                      ("two metrics with constraints", ("MINIMIZE", "MAXIMIZE"), 1)):
        response = adapter.create(plane, goals=goals, constraints=constraints)
        if "unsupported" in response:
            print(f"{title}: unsupported ({response['unsupported']})")
            continue
        for trial in range(1, 7 if quick else 16):
            [point] = adapter.suggest(plane, [trial])
            result = {"metrics": {f"m{at}": point["x"] ** (at + 1) - point["y"] for at in range(len(goals))},
                      "constraints": [point["x"] - 0.5, -point["y"]][:constraints]}
            if trial == 4:
                result = {"infeasible": "it crashed", "constraints": []}
            elif any(value > 0 for value in result["constraints"]):
                result["infeasible"] = "a constraint is violated"
            adapter.do(method="complete", trial=trial, parameters=point, **result)
        print(f"{title}: ok, last point {point}")
    check_conditions(adapter, quick)
    only = [MIXED[-1]]
    adapter.create(only)
    print("a space of one point: ok,", adapter.suggest(only, [1]))
    if "error" not in adapter.ask(method="no such method"):
        sys.exit("the response to an unknown method is not an error")
    adapter.end()
    print("all checks passed")


def check_conditions(adapter, quick):
    """Checks points of a conditional space of depth 2, or that the adapter reports it as unsupported."""
    response = adapter.create(CONDITIONAL, seed=11, budget=30)
    if "unsupported" in response:
        if "conditional" not in response["unsupported"]:
            sys.exit(f"the reason {response['unsupported']!r} does not name the conditional parameters")
        print(f"conditional parameters: unsupported ({response['unsupported']})")
        return
    foreign = {"optimizer": "sgd", "rate": 0.1, "schedule": "cosine", "momentum": 0.9, "steps": 1}
    adapter.do(method="complete", trial=1, parameters=foreign, metrics={"m0": 0.5}, constraints=[])
    shapes = set()
    for trial in range(2, 14 if quick else 30):
        [point] = adapter.suggest(CONDITIONAL, [trial])
        shapes.add(tuple(sorted(point)))
        value = point.get("momentum", 1.0) + abs(math.log10(point["rate"]) + 2.0)
        adapter.do(method="complete", trial=trial, parameters=point, metrics={"m0": value}, constraints=[])
    print(f"conditional parameters: ok, {len(shapes)} sets of active parameters")


def measure(command, trials):
    """Measures seconds per suggestion in a study of five linear parameters, and memory over several studies."""
    space = [{"name": f"x{at}", "type": "DOUBLE", "min": -5.0, "max": 5.0, "scale": "UNIT_LINEAR_SCALE"}
             for at in range(5)]
    adapter = Adapter(command)
    for study in range(3):
        response = adapter.create(space, seed=study, budget=trials)
        seconds = []
        best = math.inf
        for trial in range(1, trials + 1):
            started = time.monotonic()
            [point] = adapter.suggest(space, [trial])
            seconds.append(time.monotonic() - started)
            value = sum((x - 1.0) ** 2 for x in point.values())
            best = min(best, value)
            adapter.do(method="complete", trial=trial, parameters=point, metrics={"m0": value}, constraints=[])
        last = sorted(seconds[-10:])
        with open(f"/proc/{adapter.process.pid}/status", encoding="utf-8") as status:
            memory = next(int(row.split()[1]) // 1024 for row in status if row.startswith("VmRSS"))
        print(f"{response['version']}: study {study + 1}: {sum(seconds):.2f} s for {trials} suggestions, "
              f"{last[5]:.3f} s for the last ones, {memory} MiB, best value {best:.3g}", flush=True)
    adapter.end()


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    if len(sys.argv) > 3 and sys.argv[1] == "--time":
        measure(sys.argv[3:], int(sys.argv[2]))
    elif len(sys.argv) > 2 and sys.argv[1] == "--quick":
        check_all(sys.argv[2:], quick=True)
    elif len(sys.argv) > 1:
        check_all(sys.argv[1:], quick=False)
    else:
        sys.exit(__doc__)
