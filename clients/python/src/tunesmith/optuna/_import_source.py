"""Storages opened for reading: a copy stands in for a file, because Optuna writes tables, versions and locks."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import Study

_MAGIC = b"SQLite format 3\x00"
# Offset of the header's version for writers, which is 2 with a write-ahead log.
_WRITE_VERSION, _WAL = 18, 2
_COMPANIONS = ("-wal", "-journal")


@contextmanager
def opened_study(storage: str, name: str) -> Iterator[Study]:
    """Opens a study in a storage: the URL of a database, or the path of a journal or of an SQLite file.

    Files are copied into a temporary folder. A database server is opened by Optuna itself, which creates tables that
    are missing. Raises `ValueError` if there is no such study, `OSError` if a file cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="tunesmith-import-") as folder, _opened(storage, Path(folder)) as found:
        names = {study.study_name for study in found.get_all_studies()}
        if name not in names:
            known = ", ".join(repr(each) for each in sorted(names)) or "none"
            raise ValueError(f"storage {storage!r} has no study {name!r}; its studies: {known}")
        yield optuna.load_study(study_name=name, storage=found)


@contextmanager
def _opened(storage: str, folder: Path) -> Iterator[BaseStorage]:
    path = _sqlite_path(storage) if "://" in storage else Path(storage)
    if path is not None and not path.is_file():
        raise FileNotFoundError(f"storage {storage!r}: {str(path)!r} is not a file")
    if path is not None and not _is_sqlite(path):
        if "://" in storage:
            raise ValueError(f"storage {storage!r}: {str(path)!r} is not an SQLite database")
        copy = folder / "journal.log"
        shutil.copyfile(path, copy)
        try:
            journal = JournalStorage(JournalFileBackend(str(copy)))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"storage {storage!r}: {str(path)!r} is not a journal of Optuna: {error!r}") from error
        yield journal
        return
    url = storage
    if path is not None:
        copy = folder / "study.db"
        _copy_sqlite(path, copy)
        url = f"sqlite:///{copy}"
    database = RDBStorage(url)
    try:
        yield database
    finally:
        database.remove_session()
        database.engine.dispose()


def _sqlite_path(url: str) -> Path | None:
    """Returns the path in the URL of an SQLite database, `None` for other databases."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ValueError(f"storage {url!r} is neither the URL of a database nor the path of a file") from None
    if parsed.get_backend_name() != "sqlite":
        return None
    if not parsed.database or parsed.database == ":memory:" or parsed.database.startswith("file:"):
        raise ValueError(f"storage {url!r} names no file; allowed: sqlite:///PATH")
    return Path(parsed.database)


def _is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _copy_sqlite(path: Path, copy: Path) -> None:
    """Copies a database, consistently even while it is written."""
    with path.open("rb") as file:
        has_log = file.read(_WRITE_VERSION + 1)[-1] == _WAL
    # Reading a database with a write-ahead log would create files beside it.
    if not has_log:
        try:
            with (
                closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as source,
                closing(sqlite3.connect(copy)) as target,
            ):
                source.backup(target)
            return
        except sqlite3.OperationalError:
            # A writer died in a transaction. The copy is rolled back instead of the file.
            copy.unlink(missing_ok=True)
    files = [path, *(found for end in _COMPANIONS if (found := path.with_name(path.name + end)).is_file())]
    before = [_version(each) for each in files]
    for each in files:
        shutil.copyfile(each, copy.with_name(copy.name + each.name.removeprefix(path.name)))
    if [_version(each) for each in files] != before:
        raise OSError(f"{str(path)!r} has changed while it was read: stop its writers, or try again")


def _version(file: Path) -> tuple[int, int]:
    try:
        state = file.stat()
    except FileNotFoundError:
        return -1, -1
    return state.st_mtime_ns, state.st_size
