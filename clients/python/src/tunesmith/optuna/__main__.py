"""`python -m tunesmith.optuna import`: imports a study of Optuna into a data folder.

Exit codes: 0, 1 after an error, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import optuna
from optuna.exceptions import OptunaError
from sqlalchemy.exc import SQLAlchemyError

from ..errors import TunesmithError
from . import import_study
from ._import_source import opened_study


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tunesmith.optuna")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command = commands.add_parser(
        "import",
        help="import a study into a data folder",
        description="Imports a study of Optuna into a data folder. Repeated, it adds the trials finished since.",
    )
    command.add_argument("storage", metavar="STORAGE", help="URL of a database, or path of a journal file")
    command.add_argument("study", metavar="STUDY", help="name of the study in Optuna")
    command.add_argument(
        "--data-dir", required=True, metavar="DIR", help="data folder, the same as of tunesmith serve --data-dir"
    )
    command.add_argument("--name", help="name of the study in the data folder; by default Optuna's")
    given = parser.parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with (
            opened_study(given.storage, given.study) as study,
            import_study(study, storage=given.data_dir, name=given.name) as search,
        ):
            print(search.summary)
    except (
        TunesmithError,
        OptunaError,
        SQLAlchemyError,
        ImportError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
