"""Trains each model at all points of its design and writes one table each; a rerun resumes an interrupted one."""

import os

# Set before the import of NumPy: results and times are those of one thread.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import design
from tables import TABLES

DATA = Path(__file__).parent / "data"
# Number of rows added to one table before the next one, so that the tables of an interrupted run have similar lengths.
BLOCK_ROWS = 64


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1024, help="rows of each table (default 1024)")
    parser.add_argument("--tables", nargs="*", help="names of tables (default: all)")
    parser.add_argument("--measure", type=int, metavar="N", help="train N points of each table, print times, write no files")
    return parser.parse_args()


def evaluate(table, point):
    """Returns objective, seconds and curve; the objective is NaN if the training failed or diverged."""
    started = time.process_time()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            objective, curve = table.train(point)
    except (ValueError, FloatingPointError):
        objective, curve = np.nan, {}
    return objective, time.process_time() - started, curve


def header(table):
    names = [parameter.name for parameter in table.space]
    return names + ["objective", "seconds"] + [f"objective@{step}" for step in table.steps]


def number(value):
    return f"{value:.6g}" if np.isfinite(value) else ""


def row(table, point):
    objective, seconds, curve = evaluate(table, point)
    fields = [parameter.text(point[parameter.name]) for parameter in table.space]
    fields += [number(objective), f"{max(seconds, 1e-6):.6g}"]
    return fields + [number(curve.get(step, np.nan)) for step in table.steps]


def rows_written(table, path):
    """Returns the number of complete rows of the file at `path`; creates the file, or removes an incomplete row."""
    expected = ",".join(header(table)) + "\n"
    if not path.exists():
        path.write_text(expected)
        return 0
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if not whole.startswith(expected):
        sys.exit(f"the columns of {path} differ from those of this script: move the file away")
    if whole != text:
        path.write_text(whole)
    return whole.count("\n") - 1


def seed(table):
    return sum(map(ord, table.name))


def measure(tables, count):
    for table in tables:
        results = [evaluate(table, point) for point in design.points(table.space, seed(table), count)]
        seconds = [result[1] for result in results]
        objectives = np.array([result[0] for result in results])
        summary = np.nanquantile(objectives, [0, 0.1, 0.5, 0.9, 1])
        print(
            f"{table.name}: mean {np.mean(seconds):.3f} s, max {max(seconds):.3f} s, objective {summary.round(4)}, "
            f"{len(set(map(number, objectives)))} of {count} differ, {np.isnan(objectives).sum()} failed",
            flush=True,
        )


def main():
    arguments = parse_arguments()
    tables = [table for table in TABLES if not arguments.tables or table.name in arguments.tables]
    if arguments.measure:
        return measure(tables, arguments.measure)
    DATA.mkdir(exist_ok=True)
    designs = {}
    for table in tables:
        (DATA / f"{table.name}.yaml").write_text(design.configuration(table.space, table.title))
        designs[table.name] = design.points(table.space, seed(table), arguments.rows)
    for first_row in range(0, arguments.rows, BLOCK_ROWS):
        for table in tables:
            path = DATA / f"{table.name}.csv"
            written = rows_written(table, path)
            with path.open("a") as file:
                for point in designs[table.name][written : min(first_row + BLOCK_ROWS, arguments.rows)]:
                    file.write(",".join(row(table, point)) + "\n")
                    file.flush()
        print(f"{min(first_row + BLOCK_ROWS, arguments.rows)} of {arguments.rows} rows", flush=True)


if __name__ == "__main__":
    main()
