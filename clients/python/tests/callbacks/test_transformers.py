"""The callback of Transformers with its real callback handler, state and control; a `Trainer` would need PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from training_trials import curve, search

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers import TrainerControl, TrainerState
    from transformers.trainer_callback import CallbackHandler

from tunesmith.transformers import TunesmithCallback


class Loop:
    """The events of a training loop, through the handler that `Trainer` uses."""

    def __init__(self, callback: TunesmithCallback, *, is_first: bool = True) -> None:
        self.handler = CallbackHandler([callback], None, None, None, None)
        self.state = TrainerState(is_world_process_zero=is_first)
        self.control = self.handler.on_train_begin(None, self.state, TrainerControl())

    def evaluate(self, step: int, **metrics: float) -> bool:
        """Logs and evaluates in the order of `Trainer.evaluate`. Returns whether the training should stop."""
        self.log(step, **metrics)
        self.control = self.handler.on_evaluate(None, self.state, self.control, metrics)
        return bool(self.control.should_training_stop)

    def log(self, step: int, **logs: float) -> bool:
        self.state.global_step = step
        self.control = self.handler.on_log(None, self.state, self.control, logs)
        return bool(self.control.should_training_stop)

    def end(self) -> None:
        self.handler.on_train_end(None, self.state, self.control)


def test_each_evaluation_is_reported_once_with_its_step() -> None:
    optimizer = search()
    trial = optimizer.ask()
    loop = Loop(TunesmithCallback("eval_loss", trial=trial))
    loop.log(50, loss=2.0)
    assert not loop.evaluate(100, eval_loss=0.5, epoch=1.0)
    assert not loop.evaluate(200, eval_loss=0.25, epoch=2.0)
    loop.end()
    assert curve(optimizer, trial) == {100: 0.5, 200: 0.25}


def test_a_stopped_trial_ends_training() -> None:
    optimizer = search()
    trial = optimizer.ask()
    loop = Loop(TunesmithCallback(trial=trial))
    assert not loop.evaluate(100, eval_loss=0.5)
    optimizer.study.stop_trial(trial.number)
    assert loop.evaluate(200, eval_loss=0.25)
    assert curve(optimizer, trial) == {100: 0.5, 200: 0.25}


def test_a_metric_of_the_training_comes_from_the_logs() -> None:
    optimizer = search()
    trial = optimizer.ask()
    loop = Loop(TunesmithCallback("loss", trial=trial))
    loop.log(50, loss=2.0, grad_norm=1.0)
    loop.evaluate(50, eval_loss=0.5)
    loop.log(100, loss=1.5)
    loop.end()
    assert curve(optimizer, trial) == {50: 2.0, 100: 1.5}


def test_another_process_reports_nothing() -> None:
    optimizer = search()
    trial = optimizer.ask()
    loop = Loop(TunesmithCallback(trial=trial), is_first=False)
    assert not loop.evaluate(100, eval_loss=0.5)
    loop.end()
    assert curve(optimizer, trial) == {}


def test_one_of_several_evaluation_sets_is_monitored() -> None:
    optimizer = search()
    trial = optimizer.ask()
    loop = Loop(TunesmithCallback("eval_new_loss", trial=trial))
    for step in (100, 200):
        loop.evaluate(step, eval_old_loss=1.0)
        loop.evaluate(step, eval_new_loss=step / 1000)
    loop.end()
    assert curve(optimizer, trial) == {100: 0.1, 200: 0.2}


def test_an_unknown_metric_is_refused_at_the_second_evaluation() -> None:
    loop = Loop(TunesmithCallback("eval_accuracy", trial=search().ask()))
    loop.evaluate(100, eval_loss=0.5)
    with pytest.raises(ValueError, match="'eval_accuracy' is not among those of the training loop: eval_loss"):
        loop.evaluate(200, eval_loss=0.5)


def test_an_unknown_metric_is_refused_at_the_end() -> None:
    loop = Loop(TunesmithCallback("accuracy", trial=search().ask()))
    loop.log(100, loss=0.5)
    with pytest.raises(ValueError, match="'accuracy' is not among those of the training loop: loss"):
        loop.end()


def test_without_a_trial_nothing_happens() -> None:
    loop = Loop(TunesmithCallback("eval_accuracy"))
    results: list[Any] = [loop.evaluate(step, eval_loss=0.5) for step in (1, 2, 3)]
    loop.end()
    assert results == [False, False, False]
