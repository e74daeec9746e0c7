"""OSS Vizier's gRPC server with its SQLite datastore, in its own process. `vizier_server.py sqlite`.

The server is `DefaultVizierServer`, in which the Vizier and the Pythia service share a process. A suggestion is
`Study.suggest` of its Python client with `RANDOM_SEARCH`, a completion is `Trial.complete`. Other settings are defaults.
"""

import importlib.metadata
import multiprocessing
import os

from absl import logging
from vizier.service import clients
from vizier.service import pyvizier
from vizier.service import servers

import measure

OWNER = "benchmark"
STUDY = "reference"
METRIC = "objective"


def serve(path, connection):
    """Runs the server process: sends its endpoint, and serves until the other end of `connection` is closed."""
    logging.set_verbosity(logging.ERROR)
    server = servers.DefaultVizierServer("127.0.0.1", database_url=f"sqlite:///{path}")
    connection.send(server.endpoint)
    try:
        connection.recv()
    except EOFError:
        pass


def study_config():
    """Returns the study: the space, the metric and the algorithm."""
    config = pyvizier.StudyConfig(algorithm="RANDOM_SEARCH")
    root = config.search_space.root
    root.add_float_param("learning_rate", *measure.LEARNING_RATE, scale_type=pyvizier.ScaleType.LOG)
    root.add_float_param("momentum", *measure.MOMENTUM)
    root.add_int_param("layers", *measure.LAYERS)
    root.add_categorical_param("optimizer", list(measure.OPTIMIZERS))
    config.metric_information.append(pyvizier.MetricInformation(
        METRIC, goal=pyvizier.ObjectiveMetricGoal.MINIMIZE))
    return config


def open_study(endpoint):
    """Opens the study on the server at `endpoint`; creates it if it does not exist."""
    logging.set_verbosity(logging.ERROR)
    clients.environment_variables.server_endpoint = endpoint
    return clients.Study.from_study_config(study_config(), owner=OWNER, study_id=STUDY)


def measurement(value):
    """Returns `value` as the final measurement of a trial."""
    return pyvizier.Measurement(metrics={METRIC: value})


class VizierServer(measure.Server):
    """A server process."""

    def __init__(self, folder):
        context = multiprocessing.get_context("spawn")
        self.connection, remote = context.Pipe()
        self.process = context.Process(target=serve, args=(os.path.join(folder, "vizier.db"), remote), daemon=True)
        self.process.start()
        remote.close()
        if not self.connection.poll(measure.START_SECONDS):
            raise TimeoutError("the server did not start in time")
        self.endpoint = self.connection.recv()
        self.study = open_study(self.endpoint)

    def address(self):
        return self.endpoint

    def add_completed(self):
        trial = pyvizier.Trial(parameters=measure.FORMER_POINT)
        trial.complete(measurement(measure.FORMER_VALUE))
        self.study.add_trial(trial)

    def close(self):
        self.connection.close()
        self.process.join(5.0)
        self.process.kill()

    @staticmethod
    def connect(address, client):
        study = open_study(address)
        name = f"client-{client}"
        return (lambda: study.suggest(count=1, client_id=name)[0],
                lambda trial, value: trial.complete(measurement(value)))


if __name__ == "__main__":
    measure.main("vizier", {"sqlite": VizierServer}, f"google-vizier {importlib.metadata.version('google-vizier')}")
