"""Forecasts the flow of the Nile one year ahead, by a method that Tunesmith finds. Processes share the study."""

import csv
import math
import pathlib
import statistics

import tunesmith

with open(pathlib.Path(__file__).parent.parent / "any_command" / "nile.csv") as file:
    flows = [(int(row["year"]), float(row["flow"])) for row in csv.DictReader(file)]

method = tunesmith.categorical("method", ["moving_average", "smoothing"])
method = method.when("moving_average", tunesmith.integer("years", 1, 20))
method = method.when("smoothing", tunesmith.double("level", 0.01, 1, scale="log"))
study = tunesmith.Client().create_study(
    "nile", [method], [tunesmith.minimize("error")], seed=7, max_trials=30, trial_lease=60, exist_ok=True
)
for trial in study.trials():
    with trial:
        forecast, squares, parameters = flows[0][1], [], trial.parameters
        for index, (year, flow) in enumerate(flows):
            if parameters["method"] == "moving_average" and index > 0:
                forecast = statistics.fmean(flow for _, flow in flows[max(0, index - parameters["years"]) : index])
            squares.append((flow - forecast) ** 2)
            if parameters["method"] == "smoothing":
                forecast += parameters["level"] * (flow - forecast)
            if year % 10 == 0:
                trial.report(math.sqrt(statistics.fmean(squares)), step=year)
(best,) = study.best_trials()
print(f"{len(study.all_trials())} trials, the best has error {best.metrics['error']:.2f} with {dict(best.parameters)}")
