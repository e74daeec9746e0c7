"""Files of the job: local ones, and objects by address through ``fsspec``, if installed."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlparse

from .errors import InputError

# Packages that open an address, by scheme.
_PACKAGES = {"gs": "gcsfs", "s3": "s3fs"}


def matching(path: str) -> list[str]:
    """Files that ``path`` matches, in order; itself without ``*``.

    Raises:
        InputError: if there is none.
    """
    if "*" not in path:
        return [path]
    local = local_path(path)
    if local is not None:
        found = sorted(glob.glob(str(local)))
    else:
        system, pattern = _fsspec(path).core.url_to_fs(path)
        found = sorted(system.unstrip_protocol(name) for name in system.glob(pattern))
    if not found:
        raise InputError(f"{path} matches no file")
    return found


def open_text(path: str) -> IO[str]:
    """Opens the UTF-8 file ``path`` for reading.

    Raises:
        InputError: if it cannot be opened.
    """
    local = local_path(path)
    try:
        if local is not None:
            return local.open(encoding="utf-8-sig", newline="")
        opened: IO[str] = _fsspec(path).open(path, "r", encoding="utf-8-sig", newline="").open()
        return opened
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


@contextmanager
def folder(path: str) -> Iterator[Path]:
    """Yields a local folder for the files of ``path``; files of an address are uploaded at the end.

    Raises:
        InputError: if it cannot be written to.
    """
    local = local_path(path)
    try:
        if local is not None:
            local.mkdir(parents=True, exist_ok=True)
            yield local
            return
        library = _fsspec(path)
        with tempfile.TemporaryDirectory() as temporary:
            yield Path(temporary)
            system, root = library.core.url_to_fs(path)
            for file in sorted(Path(temporary).rglob("*")):
                if file.is_file():
                    target = f"{root.rstrip('/')}/{file.relative_to(temporary).as_posix()}"
                    system.makedirs(target.rpartition("/")[0], exist_ok=True)
                    system.put_file(str(file), target)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


def local_path(path: str) -> Path | None:
    """The local path that ``path`` names; ``None`` for an address."""
    if "://" not in path:
        return Path(path)
    parsed = urlparse(path)
    return Path(unquote(parsed.path)) if parsed.scheme == "file" else None


def _fsspec(path: str) -> Any:
    scheme = path.partition("://")[0]
    package = _PACKAGES.get(scheme, "fsspec")
    try:
        import fsspec

        fsspec.get_filesystem_class(scheme)
    except (ImportError, ValueError) as error:
        raise InputError(
            f"{path} cannot be opened: {error}; add the package {package} to tunesmith.requirements"
        ) from error
    return fsspec
