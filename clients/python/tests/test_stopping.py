"""Trials that are stopped early."""

from __future__ import annotations

import tunesmith
from server_process import until
from tunesmith import Client


def test_an_unpromising_trial_is_stopped_with_its_last_report(client: Client) -> None:
    study = client.create_study(
        "s", [tunesmith.double("x", 0, 1)], [tunesmith.maximize("score")], automated_stopping="median"
    )
    for trial in study.trials(count=6):
        with trial:
            for step in range(1, 6):
                trial.report(0.8 + step / 100, step=step)
                assert not trial.should_stop()
    (hopeless,) = study.suggest()
    steps = []
    with hopeless:
        for step in range(1, 6):
            steps.append(step)
            hopeless.report(0.1, step=step)
            if hopeless.should_stop():
                break
    assert len(steps) < 5
    assert hopeless.should_stop()
    assert hopeless.record.state == "COMPLETED"
    assert hopeless.record.final_measurement == hopeless.record.measurements[-1]
    assert hopeless.record.final_measurement.step == steps[-1]


def test_without_a_rule_no_trial_is_stopped(client: Client) -> None:
    study = client.create_study("s", [tunesmith.double("x", 0, 1)], [tunesmith.maximize("score")])
    (trial,) = study.suggest()
    trial.report(-1e9)
    assert not trial.should_stop()


def test_a_trial_is_stopped_by_a_user(client: Client) -> None:
    study = client.create_study("s", [tunesmith.double("x", 0, 1)], [tunesmith.maximize("score")])
    (trial,) = study.suggest()
    with trial:
        trial.report(0.5)
        assert study.stop_trial(trial.number).state == "STOPPING"
        assert trial.should_stop()
    assert study.trial(trial.number) == trial.record
    assert trial.record.metrics == {"score": 0.5}


def test_a_note_is_kept_with_its_trial(client: Client) -> None:
    study = client.create_study("s", [tunesmith.double("x", 0, 1)], [tunesmith.maximize("score")])
    (trial,) = study.suggest()
    assert trial.record.note == ""
    assert study.set_note(trial.number, "looks odd\nask Ada").note == "looks odd\nask Ada"
    assert study.trial(trial.number).note == "looks odd\nask Ada"
    assert study.set_note(trial.number, "").note == ""


def test_a_renewal_reports_that_a_trial_should_stop(client: Client) -> None:
    study = client.create_study("s", [tunesmith.double("x", 0, 1)], [tunesmith.maximize("score")], trial_lease=4.5)
    (trial,) = study.suggest()
    trial.report(0.5)
    study.stop_trial(trial.number)
    # The thread that renews the lease makes the request.
    until(lambda: trial._should_stop)
    with trial:
        assert trial.should_stop()
    assert study.trial(trial.number).metrics == {"score": 0.5}
