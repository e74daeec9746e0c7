"""Optuna without a server: processes that share one study through its storage. `optuna_storage.py sqlite|journal`.

`sqlite` is `RDBStorage` with a SQLite file, `journal` is `JournalStorage` with a file and its default lock. A suggestion
is `ask` of `RandomSampler` with the whole space, a completion is `tell`. The one departure from the defaults is the lock
timeout of SQLite, a minute instead of five seconds, as its documentation advises for several processes.
"""

import os

import optuna

import measure

STUDY = "reference"
SPACE = {
    "learning_rate": optuna.distributions.FloatDistribution(*measure.LEARNING_RATE, log=True),
    "momentum": optuna.distributions.FloatDistribution(*measure.MOMENTUM),
    "layers": optuna.distributions.IntDistribution(*measure.LAYERS),
    "optimizer": optuna.distributions.CategoricalDistribution(measure.OPTIMIZERS),
}


class Storage(measure.Server):
    """A study in the storage that `open` of a subclass returns."""

    def __init__(self, folder):
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.path = os.path.join(folder, "study")
        self.study = optuna.create_study(study_name=STUDY, storage=self.open(self.path))

    @staticmethod
    def open(path):
        """Opens the storage at `path`."""
        raise NotImplementedError

    def address(self):
        return self.path

    def add_completed(self):
        self.study.add_trial(optuna.trial.create_trial(
            params=measure.FORMER_POINT, distributions=SPACE, value=measure.FORMER_VALUE))

    @classmethod
    def connect(cls, address, client):
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.load_study(study_name=STUDY, storage=cls.open(address),
                                  sampler=optuna.samplers.RandomSampler(seed=client))
        return lambda: study.ask(SPACE), study.tell


class Sqlite(Storage):
    """`RDBStorage` with SQLite."""

    @staticmethod
    def open(path):
        return optuna.storages.RDBStorage(f"sqlite:///{path}.db", engine_kwargs={"connect_args": {"timeout": 60.0}})


class Journal(Storage):
    """`JournalStorage` with a file."""

    @staticmethod
    def open(path):
        return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(f"{path}.log"))


if __name__ == "__main__":
    measure.main("optuna", {"sqlite": Sqlite, "journal": Journal}, f"optuna {optuna.__version__}")
