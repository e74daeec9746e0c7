#!/usr/bin/env python3
"""Merges new runs into the compressed ones of a folder: NAME.jsonl.zst and NAME.jsonl become NAME.jsonl.zst.

    benches/results/compress.py FOLDER...

Reports use the best result so far. Therefore a result that improves on all before it keeps all its digits, and any other
keeps two digits of its distance from the best known value. Times of suggestions keep one digit. Runs with several
goals, or without a best known value, keep all digits. The program zstd must be installed.
"""

import json
import math
import pathlib
import subprocess
import sys

NAMES = ("runs", "invocations")
DIGITS = 2
TIME_DIGITS = 1


def reduced(value, best_known, sign, best):
    """`value` with `DIGITS` digits of its distance from `best_known`, or as many more as keep it from passing `best`."""
    distance = abs(value - best_known)
    if distance == 0:
        return value
    decimals = DIGITS - 1 - math.floor(math.log10(distance))
    for more in range(8):
        shorter = round(value, decimals + more)
        if sign * shorter >= best:
            return shorter
    return value


def reduce_results(run):
    """Shortens the results and times of `run` in place."""
    best_known = (run.get("quality") or {}).get("value", {}).get("best_known")
    numbers = [value for value in run["results"] if value is not None]
    is_single = len(run["goals"]) == 1 and all(isinstance(value, (int, float)) for value in numbers)
    if is_single and isinstance(best_known, (int, float)):
        sign = 1 if run["goals"][0] == "Minimize" else -1
        best = math.inf
        results = []
        for value in run["results"]:
            if value is None or sign * value < best:
                best = best if value is None else sign * value
                results.append(value)
            else:
                results.append(reduced(value, best_known, sign, best))
        run["results"] = results
    run["suggest_ms"] = [time and float(f"{time:.{TIME_DIGITS}g}") for time in run["suggest_ms"]]


def lines(path):
    """The lines of `path` and of its compressed form, the older first."""
    compressed = path.with_name(path.name + ".zst")
    if compressed.exists():
        yield from subprocess.run(["zstd", "-dqc", compressed], check=True, capture_output=True, text=True).stdout.splitlines()
    if path.exists():
        yield from path.read_text().splitlines()


def compress(folder):
    for name in NAMES:
        path = folder / f"{name}.jsonl"
        merged = []
        for line in lines(path):
            record = json.loads(line)
            if "results" in record:
                reduce_results(record)
            merged.append(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n")
        if merged:
            compressed = path.with_name(path.name + ".zst")
            subprocess.run(["zstd", "-19", "-qf", "-", "-o", compressed], check=True, input="".join(merged), text=True)
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for folder in sys.argv[1:]:
        compress(pathlib.Path(folder))
