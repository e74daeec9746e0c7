"""The callback of Keras with the real package on JAX."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from training_trials import curve, search

os.environ["KERAS_BACKEND"] = "jax"

import keras

from tunesmith.keras import TunesmithCallback

RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 3)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


def model() -> Any:
    keras.utils.set_random_seed(1)
    layers = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    layers.compile(optimizer="sgd", loss="mse")
    return layers


def fit(*callbacks: Any, epochs: int = 5, **options: Any) -> dict[str, list[float]]:
    history = model().fit(X, Y, epochs=epochs, validation_data=(X, Y), verbose=0, callbacks=list(callbacks), **options)
    values: dict[str, list[float]] = history.history
    return values


class StopAt(keras.callbacks.Callback):
    """Requests that the trial stops after an epoch."""

    def __init__(self, optimizer: Any, trial: Any, epochs: int) -> None:
        super().__init__()
        self.optimizer, self.trial, self.epochs = optimizer, trial, epochs

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch + 1 == self.epochs:
            self.optimizer.study.stop_trial(self.trial.number)


def test_each_epoch_is_reported_with_its_step() -> None:
    optimizer = search()
    trial = optimizer.ask()
    history = fit(TunesmithCallback("val_loss", trial=trial))
    assert curve(optimizer, trial) == pytest.approx(dict(enumerate(history["val_loss"], start=1)))
    assert optimizer.tell(trial).value == pytest.approx(history["val_loss"][-1])


def test_a_stopped_trial_ends_training_after_the_epoch() -> None:
    optimizer = search()
    trial = optimizer.ask()
    history = fit(StopAt(optimizer, trial, 3), TunesmithCallback(trial=trial), epochs=50)
    assert len(history["loss"]) == 3
    assert list(curve(optimizer, trial)) == [1, 2, 3]


def test_steps_continue_with_initial_epoch() -> None:
    optimizer = search()
    trial = optimizer.ask()
    fit(TunesmithCallback("loss", trial=trial), epochs=7, initial_epoch=4)
    assert list(curve(optimizer, trial)) == [5, 6, 7]


def test_epochs_without_validation_are_not_reported() -> None:
    optimizer = search()
    trial = optimizer.ask()
    fit(TunesmithCallback("val_loss", trial=trial), epochs=6, validation_freq=3)
    assert list(curve(optimizer, trial)) == [3, 6]


def test_an_unknown_metric_is_refused_with_the_known_ones() -> None:
    trial = search().ask()
    with pytest.raises(ValueError, match="'val_acc' is not among those of the training loop: loss, val_loss"):
        fit(TunesmithCallback("val_acc", trial=trial))
    with pytest.raises(ValueError, match="'acc' is not among those of the training loop: loss, val_loss"):
        fit(TunesmithCallback("acc", trial=trial))


def test_a_metric_of_the_validation_without_validation_is_refused_at_the_end() -> None:
    callback = TunesmithCallback("val_loss", trial=search().ask())
    with pytest.raises(ValueError, match="'val_loss' is not among those of the training loop: loss"):
        model().fit(X, Y, epochs=2, verbose=0, callbacks=[callback])


def test_without_a_trial_nothing_happens() -> None:
    assert len(fit(TunesmithCallback("val_acc"))["loss"]) == 5


def test_errors_of_the_framework_are_not_swallowed() -> None:
    callback = TunesmithCallback("val_loss", trial=search().ask())
    with pytest.raises(ValueError, match="incompatible with the layer"):
        model().fit(X[:, :2], Y, epochs=2, verbose=0, callbacks=[callback])


PROCESS = """
import os, sys
os.environ["KERAS_BACKEND"] = "jax"
import jax
jax.distributed.initialize(f"127.0.0.1:{sys.argv[1]}", num_processes=2, process_id=int(sys.argv[2]))
import keras
import numpy as np
import tunesmith
from tunesmith.keras import TunesmithCallback

optimizer = tunesmith.Optimizer([tunesmith.double("x", 0, 1)], [tunesmith.minimize("loss")], seed=1)
trial = optimizer.ask()

class StopAtThree(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        # Only the first process's trial stops.
        if epoch == 2 and jax.process_index() == 0:
            optimizer.study.stop_trial(trial.number)

model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
x = np.ones((8, 3), "float32")
callbacks = [StopAtThree(), TunesmithCallback("loss", trial=trial)]
history = model.fit(x, x[:, :1], epochs=20, verbose=0, callbacks=callbacks)
reports = len(optimizer.study.trial(trial.number).measurements)
print(jax.process_index(), len(history.history["loss"]), reports, flush=True)
"""


@pytest.fixture
def unused_port() -> int:
    """A port of this machine that no program listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_of_several_processes_the_first_reports_and_all_stop(unused_port: int) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(unused_port), str(rank)], stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    # Rank, epochs and reports of each process.
    results = sorted(tuple(int(part) for part in output.splitlines()[-1].split()) for output in outputs)
    assert results == [(0, 3, 3), (1, 3, 0)]
