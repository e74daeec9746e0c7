"""A study from its creation to its deletion."""

from __future__ import annotations

import math

import pytest

import tunesmith
from tunesmith import Client


def test_a_study_from_its_creation_to_its_deletion(client: Client) -> None:
    assert client.studies() == []
    study = client.create_study(
        "s",
        [
            tunesmith.double("rate", 1e-4, 1, scale="log"),
            tunesmith.integer("layers", 1, 4),
            tunesmith.discrete("batch", [16, 32, 64]),
            tunesmith.discrete("drop", [0, 0.25, 0.5]),
            tunesmith.categorical("optimizer", ["adam", "sgd"]),
        ],
        [tunesmith.minimize("loss")],
        seed=3,
        max_trials=6,
    )
    assert (study.id, study.state, study.metric_names) == ("s", "ACTIVE", ("loss",))
    assert study.name == client.studies()[0].name == client.study("s").name
    losses: dict[int, float] = {}
    for trial in study.trials(client_id="worker"):
        with trial:
            types = {name: type(value) for name, value in trial.parameters.items()}
            assert types == {"rate": float, "layers": int, "batch": int, "drop": float, "optimizer": str}
            assert 1e-4 <= float(trial.parameters["rate"]) <= 1
            assert trial.parameters["batch"] in (16, 32, 64)
            for step in (1, 2, 3):
                loss = abs(math.log10(float(trial.parameters["rate"])) + 2) / step
                trial.report(loss)
            losses[trial.number] = loss
        assert trial.is_completed
        assert trial.record.metrics == {"loss": loss}
    assert study.state == "COMPLETED"
    assert sorted(losses) == [1, 2, 3, 4, 5, 6]
    records = study.all_trials()
    assert {record.number: record.metrics["loss"] for record in records} == losses
    for record in records:
        assert [measurement.step for measurement in record.measurements] == [1, 2, 3]
        elapsed = [measurement.elapsed for measurement in record.measurements]
        assert all(seconds is not None and seconds >= 0 for seconds in elapsed)
        assert record.client_id == "worker"
        assert record.start_time is not None
        assert record.end_time is not None
        assert record.start_time <= record.end_time
    (best,) = study.best_trials()
    assert best.metrics["loss"] == min(losses.values())
    study.delete()
    with pytest.raises(tunesmith.NotFound):
        client.study("s")


def test_the_loop_ends_after_count_trials(client: Client) -> None:
    study = client.create_study("s", [tunesmith.double("x", 0, 1)], [tunesmith.maximize("score")])
    for trial in study.trials(count=3):
        trial.complete(float(trial.parameters["x"]))
    assert len(study.all_trials()) == 3
    assert study.state == "ACTIVE"
    assert list(study.trials(count=0)) == []


def test_a_restarted_worker_resumes_its_trial(client: Client) -> None:
    study = client.create_study("s", [tunesmith.double("x", 0, 1)], [tunesmith.minimize("loss")])
    with pytest.raises(KeyboardInterrupt):
        for trial in study.trials(client_id="w"):
            with trial:
                trial.report(0.5, step=7)
                raise KeyboardInterrupt
    assert [record.state for record in study.all_trials()] == ["ACTIVE"]
    (again,) = study.suggest(client_id="w")
    assert (again.name, again.parameters) == (trial.name, trial.parameters)
    again.report(0.25)
    assert again.complete().final_measurement == again.record.measurements[-1]
    assert [measurement.step for measurement in again.record.measurements] == [7, 8]


def test_several_metrics_have_several_best_trials(client: Client) -> None:
    metrics = [tunesmith.minimize("loss"), tunesmith.maximize("speed")]
    study = client.create_study("s", [tunesmith.integer("x", 0, 4)], metrics, algorithm="grid_search")
    for trial in study.trials():
        x = int(trial.parameters["x"])
        with pytest.raises(ValueError, match="several metrics"):
            trial.report(1.0)
        # Above x = 3 both are worse.
        trial.complete({"loss": x if x < 3 else 9, "speed": x if x < 3 else 0})
    assert sorted(int(best.parameters["x"]) for best in study.best_trials()) == [0, 1, 2]


def test_a_metric_with_a_threshold_is_a_constraint(client: Client) -> None:
    metrics = [
        tunesmith.minimize("loss"),
        tunesmith.minimize("latency", safety_threshold=20, desired_min_safe_trials_fraction=0.5),
    ]
    study = client.create_study("s", [tunesmith.double("x", 0, 1)], metrics)
    assert client.create_study("s", [tunesmith.double("x", 0, 1)], metrics, exist_ok=True).name == study.name
    for loss, latency in ((1.0, 30), (2.0, 20), (3.0, 10)):
        [trial] = study.suggest()
        trial.complete({"loss": loss, "latency": latency})
    assert [trial.number for trial in study.best_trials()] == [2]
    with pytest.raises(ValueError, match="needs a safety_threshold"):
        tunesmith.minimize("latency", desired_min_safe_trials_fraction=0.5).to_message()


def test_children_exist_for_some_values_of_their_parents(client: Client) -> None:
    optimizer = tunesmith.categorical("optimizer", ["adam", "sgd", "momentum"]).when(
        ["sgd", "momentum"], tunesmith.discrete("decay", [0.5, 1.0])
    )
    optimizer = optimizer.when("momentum", tunesmith.integer("power", 1, 2))
    layers = tunesmith.integer("layers", 1, 2).when(2, tunesmith.discrete("units", [8, 16]))
    study = client.create_study("s", [optimizer, layers], [tunesmith.minimize("loss")], algorithm="grid_search")
    points = []
    for trial in study.trials():
        points.append(trial.parameters)
        trial.complete(0.0)
    expected = [
        {"optimizer": name, **decay, **power, "layers": layers, **units}
        for name in ("adam", "sgd", "momentum")
        for decay in ([{}] if name == "adam" else [{"decay": 0.5}, {"decay": 1.0}])
        for power in ([{"power": 1}, {"power": 2}] if name == "momentum" else [{}])
        for layers in (1, 2)
        for units in ([{}] if layers == 1 else [{"units": 8}, {"units": 16}])
    ]
    assert sorted(points, key=repr) == sorted((dict(sorted(point.items())) for point in expected), key=repr)


def test_user_supplied_trials_come_next_and_their_results_count(client: Client) -> None:
    parameters = [tunesmith.double("x", 0, 4), tunesmith.integer("k", 1, 3), tunesmith.categorical("c", ["a", "b"])]
    study = client.create_study("s", parameters, [tunesmith.minimize("loss")])
    known = study.create_trial({"x": 2, "k": 1, "c": "b"}, 0.125)
    assert (known.state, known.metrics) == ("COMPLETED", {"loss": 0.125})
    study.create_trial({"x": 1, "k": 3, "c": "a"})
    (trial,) = study.suggest()
    assert trial.parameters == {"x": 1.0, "k": 3, "c": "a"}
    assert study.best_trials() == [known]


def test_an_existing_study_is_returned_only_with_the_same_configuration(client: Client) -> None:
    def create(maximum: float = 1, **more: object) -> tunesmith.Study:
        choice = tunesmith.categorical("c", ["a", "b"]).when("b", tunesmith.integer("k", 1, 9))
        parameters = [tunesmith.double("x", 0, maximum), tunesmith.discrete("d", [1, 2.5], scale="log"), choice]
        return client.create_study(
            "s", parameters, [tunesmith.maximize("m")], max_trials=9, trial_lease=1.5, seed=1,
            automated_stopping="median", **more,  # type: ignore[arg-type]
        )  # fmt: skip

    first = create()
    with pytest.raises(tunesmith.AlreadyExists):
        create()
    assert create(exist_ok=True).name == first.name
    with pytest.raises(tunesmith.StudyDiffers) as caught:
        create(maximum=2, final_measurement="best", exist_ok=True)
    assert "studyConfig.parameters[0].doubleValueSpec.maxValue is 1.0, not 2.0" in str(caught.value)
    assert "studyConfig.tunesmith.finalMeasurement is 'absent', not 'BEST'" in str(caught.value)


def test_additions_are_sent_and_compared_by_their_meaning(client: Client) -> None:
    def create(mode: object, **more: object) -> tunesmith.Study:
        additions = {
            "priors": [{"parameter": "x", "mode": mode, "confidence": "HIGH"}],
            "initialTrials": [{"x": 4}],
            "earlyStopping": "ASHA",
            "earlyStoppingSettings": {"eta": 4, "minResource": 2},
            "studyStoppingConfig": {"maxNumTrialsNoProgress": 2, "maxDurationNoProgress": "3600.0s"},
        }
        parameters = [tunesmith.integer("x", 1, 9)]
        return client.create_study(
            "s", parameters, [tunesmith.minimize("m")], algorithm="cma_es", additions=additions, **more,  # type: ignore[arg-type]
        )  # fmt: skip

    study = create(3)
    assert create("3", exist_ok=True).name == study.name
    with pytest.raises(tunesmith.StudyDiffers):
        create(5, exist_ok=True)
    values = []
    for trial in study.trials():
        with trial:
            values.append(trial.parameters["x"])
            trial.report(1.0, step=1)
    assert values[0] == 4
    assert len(values) == 3  # two trials in a row are not better than the first


def test_the_best_report_is_the_result_with_final_measurement_best(client: Client) -> None:
    study = client.create_study(
        "s", [tunesmith.double("x", 0, 1)], [tunesmith.minimize("loss")], final_measurement="best"
    )
    (trial,) = study.suggest()
    with trial:
        for loss in (0.5, 0.25, math.nan, 0.75):
            trial.report(loss)
    assert trial.record.metrics == {"loss": 0.25}
    assert math.isnan(trial.record.measurements[2].metrics["loss"])
