"""Build backend of the wheel (PEP 517): maturin, with the program `tunesmith` among the scripts of the wheel.

maturin builds either an extension module or programs. The program is therefore laid into the data folder of the wheel
first: the file that `TUNESMITH_PROGRAM` names, or one that is compiled here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import maturin
from maturin import get_requires_for_build_wheel as get_requires_for_build_wheel

_ROOT = Path(__file__).resolve().parents[2]
# Measured figures, and the toolchain of development: a user's compiler builds the package.
_NO_SOURCES = ("benches/results/", "rust-toolchain.toml")
# `data` in pyproject.toml.
_SCRIPTS = _ROOT / "packaging" / "python" / "tunesmith.data" / "scripts"


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Builds the wheel with the engine and the program."""
    program = os.environ.get("TUNESMITH_PROGRAM")
    _SCRIPTS.mkdir(parents=True, exist_ok=True)
    shutil.copy2(program or _compiled(), _SCRIPTS / "tunesmith")
    name: str = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    return name


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Builds the source distribution: the files of the repository that a build needs, in the state of the working tree.

    maturin would leave out the crates of the program, which the wheel contains too.
    """
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    names = [name for name in listed.split("\0") if name and not name.startswith(_NO_SOURCES)]
    with tempfile.TemporaryDirectory() as folder:
        _SCRIPTS.mkdir(parents=True, exist_ok=True)
        information = Path(folder, maturin.prepare_metadata_for_build_wheel(folder))
        base = information.name.removesuffix(".dist-info")
        archive = f"{base}.tar.gz"
        with tarfile.open(Path(sdist_directory, archive), "w:gz", format=tarfile.PAX_FORMAT) as sources:
            for name in sorted(names):
                sources.add(_ROOT / name, f"{base}/{name}", recursive=False, filter=_anonymous)
            sources.add(information / "METADATA", f"{base}/PKG-INFO", filter=_anonymous)
    return archive


def get_requires_for_build_sdist(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Returns no further requirements."""
    return []


def _anonymous(file: tarfile.TarInfo) -> tarfile.TarInfo:
    file.uid = file.gid = 0
    file.uname = file.gname = ""
    return file


def _compiled() -> Path:
    command = ["cargo", "build", "--release", "--locked", "--package", "tunesmith", "--bin", "tunesmith"]
    command.append("--message-format=json-render-diagnostics")
    printed = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    built = [message.get("executable") for message in map(json.loads, printed.splitlines())]
    return Path(next(path for path in reversed(built) if path))
