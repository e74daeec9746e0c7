#!/usr/bin/env python3
"""A complete search algorithm for `tunesmith bench --external`: it changes one parameter of the best point so far."""
import json
import random
import sys


def draw(parameter):
    if "values" in parameter:
        return rng.choice(parameter["values"])
    value = rng.uniform(parameter["min"], parameter["max"])
    return round(value) if parameter["type"] == "INTEGER" else value


problem = None
for line in sys.stdin:
    request, reply = json.loads(line), {}
    if request["method"] == "create":
        problem, rng, best = request["problem"], random.Random(request["seed"]), (float("inf"), {})
        reply = {"name": "hill-climber", "version": "1.0"}
        if len(problem["metrics"]) > 1:
            reply["unsupported"] = "more than one metric"
        if any("condition" in parameter for parameter in problem["parameters"]):
            reply["unsupported"] = "conditional parameters"
    elif problem is None:
        reply["error"] = "no study was started"
    elif request["method"] == "suggest":
        points = [{p["name"]: draw(p) for p in problem["parameters"]} for _ in request["trials"]]
        changes = [dict([rng.choice(list(point.items()))]) for point in points]
        reply["suggestions"] = [best[1] | change for change in changes] if best[1] else points
    elif request["method"] != "complete":
        reply["error"] = "no such method"
    elif "infeasible" not in request:
        metric = problem["metrics"][0]
        loss = request["metrics"][metric["name"]] * (-1 if metric["goal"] == "MAXIMIZE" else 1)
        best = min(best, (loss, request["parameters"]), key=lambda pair: pair[0])
    print(json.dumps(reply), flush=True)
