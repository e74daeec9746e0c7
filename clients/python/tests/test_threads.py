"""Many workers in one process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import tunesmith
from tunesmith import Client


def test_eight_threads_get_each_point_of_a_finite_space_once(client: Client) -> None:
    study = client.create_study(
        "s",
        [tunesmith.integer("a", 1, 5), tunesmith.categorical("b", ["x", "y", "z"])],
        [tunesmith.minimize("loss")],
    )

    def work(_: int) -> list[tuple[int, str]]:
        points = []
        for trial in study.trials():
            with trial:
                trial.report(int(trial.parameters["a"]))
                points.append((int(trial.parameters["a"]), str(trial.parameters["b"])))
        return points

    with ThreadPoolExecutor(8) as pool:
        given = [point for points in pool.map(work, range(8)) for point in points]
    assert sorted(given) == [(a, b) for a in range(1, 6) for b in "xyz"]
    assert study.state == "COMPLETED"
    records = study.all_trials()
    assert len({record.client_id for record in records}) > 1
    assert all(record.metrics == {"loss": record.parameters["a"]} for record in records)
