"""Optuna's dashboard on a server."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import optuna
import optuna_dashboard
import pytest
from optuna.storages import GrpcStorageProxy

from storage_server import StorageServer

Ask = Callable[..., Any]


class Quiet(WSGIRequestHandler):
    """Logs no requests."""

    def log_message(self, format: str, *args: Any) -> None:
        """Does nothing."""


@pytest.fixture
def ask(storage_server: StorageServer, storage: GrpcStorageProxy) -> Iterator[Ask]:
    """A function that sends a request to a dashboard with a connection of its own."""
    application = optuna_dashboard.wsgi(storage_server.proxy())
    server = make_server("127.0.0.1", 0, application, handler_class=Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()

    def ask(method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{server.server_port}/api/{path}", method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, None if body is None else json.dumps(body).encode()) as response:
            return json.loads(response.read() or b"null")

    yield ask
    server.shutdown()
    thread.join()
    server.server_close()


def test_studies_and_trials_are_listed_and_changed(ask: Ask, storage: GrpcStorageProxy) -> None:
    study = optuna.create_study(storage=storage, study_name="shown", direction="maximize")
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=12)
    waiting = study.ask()
    (summary,) = ask("GET", "studies")["study_summaries"]
    assert (summary["study_name"], summary["directions"]) == ("shown", ["maximize"])
    details = ask("GET", f"studies/{summary['study_id']}")
    values = [trial["values"] for trial in details["trials"] if trial["state"] == "Complete"]
    assert values == [trial.values for trial in study.trials[:12]]
    importances = ask("GET", f"studies/{summary['study_id']}/param_importances")
    assert [entry["name"] for entry in importances["param_importances"][0]] == ["x"]

    ask("POST", f"trials/{waiting._trial_id}/tell", {"state": "Complete", "values": [0.25]})
    assert study.trials[12].values == [0.25]
    ask("PUT", f"studies/{summary['study_id']}/note", {"body": "# é" * 2000, "version": 1})
    assert ask("GET", f"studies/{summary['study_id']}")["note"]["body"] == "# é" * 2000
    ask("POST", f"studies/{summary['study_id']}/rename", {"study_name": "renamed"})
    renamed = optuna.load_study(study_name="renamed", storage=storage)
    assert [trial.values for trial in renamed.trials] == [*values, [0.25]]
    ask("DELETE", f"studies/{renamed._study_id}", {})
    assert ask("GET", "studies")["study_summaries"] == []
