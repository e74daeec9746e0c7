"""Writes benchmark/statistics/tests/data/reference.json: samples and their statistics by scipy.

    python3 -m venv venv && venv/bin/pip install scipy==1.17.1 numpy==2.4.6
    venv/bin/python benches/reference/statistics.py

The samples come from a fixed seed and are rounded, so that the file is equal on all machines; p values may differ in
the last digits.
"""

import json
from pathlib import Path

import numpy as np
import scipy
from scipy import stats

SCIPY = "1.17.1"
OUTPUT = Path(__file__).parents[2] / "benchmark" / "statistics" / "tests" / "data" / "reference.json"


def samples(random):
    """Yields the names and values of samples of paired differences."""
    for size in (3, 4, 5, 6, 8, 10, 13, 14, 20, 24, 30, 50, 51, 75, 100):
        shift = random.uniform(-0.5, 0.8)
        yield f"plain_{size}", np.round(random.normal(shift, 1.0, size), 6)
        yield f"ties_{size}", np.sign(random.normal(shift, 1, size)) * random.integers(1, 5, size).astype(float)
        with_zeros = np.round(random.normal(shift, 1.5, size))
        with_zeros[0] = 2.0
        with_zeros[-1] = 0.0
        yield f"zeros_{size}", with_zeros
    yield "far_30", np.round(random.normal(4.0, 0.5, 30), 6)
    yield "far_100", np.round(random.normal(4.0, 0.5, 100), 6)


def one_sample(name, values):
    row = {"name": name, "values": values.tolist(), "ranks": stats.rankdata(values).tolist()}
    row["mean"] = float(np.mean(values))
    row["median"] = float(np.median(values))
    row["standard_error"] = float(stats.sem(values))
    row["quantiles"] = [[p, float(np.quantile(values, p))] for p in (0.0, 0.05, 0.25, 0.6, 0.975, 1.0)]
    found = stats.wilcoxon(values, zero_method="wilcox", correction=True, method="auto")
    row["wilcoxon"] = {"statistic": float(found.statistic), "p": float(found.pvalue)}
    interval = stats.bootstrap((values,), np.mean, n_resamples=20000, method="percentile", rng=1).confidence_interval
    row["bootstrap_mean"] = [float(interval.low), float(interval.high)]
    return row


def friedman(name, blocks):
    found = stats.friedmanchisquare(*blocks.T)
    return {
        "name": name, "blocks": blocks.tolist(), "statistic": float(found.statistic), "p": float(found.pvalue),
        "mean_ranks": stats.rankdata(blocks, axis=1).mean(axis=0).tolist(),
    }


def friedmans(random):
    for count, treatments in ((2, 3), (3, 4), (10, 3), (24, 5), (24, 12), (100, 20)):
        shift = np.linspace(0, 0.6, treatments)
        blocks = random.normal(shift, 1.0, (count, treatments))
        yield friedman(f"plain_{count}x{treatments}", np.round(blocks, 6))
        yield friedman(f"ties_{count}x{treatments}", np.round(blocks))
    yield friedman("far_100x6", np.round(random.normal(np.arange(6) * 1.5, 1.0, (100, 6)), 6))


def main():
    assert scipy.__version__ == SCIPY, f"needs scipy {SCIPY}, found {scipy.__version__}"
    random = np.random.Generator(np.random.PCG64(20))
    reference = {
        "scipy": scipy.__version__,
        "samples": [one_sample(name, values) for name, values in samples(random)],
        "friedman": list(friedmans(random)),
        "studentized_range": [
            {"alpha": alpha, "treatments": treatments,
             "quantile": float(stats.studentized_range.ppf(1 - alpha, treatments, np.inf))}
            for alpha in (0.1, 0.05, 0.01) for treatments in (*range(2, 21), 30, 50, 100)
        ],
    }
    text = json.dumps(reference, indent=None, separators=(",", ":"), allow_nan=False)
    OUTPUT.write_text(text.replace('{"name"', '\n{"name"').replace('{"alpha"', '\n{"alpha"') + "\n")


if __name__ == "__main__":
    main()
