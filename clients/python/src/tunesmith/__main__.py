"""`python -m tunesmith`: the program that was installed with this package."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path


def find_program() -> Path:
    """Returns the path of the program. Raises `FileNotFoundError` with the places searched if it is missing.

    `PATH` is not searched: another version may come first.
    """
    package = Path(__file__).resolve().parent
    folders = [Path(sysconfig.get_path("scripts"))]
    base = sysconfig.get_path("scripts", vars={"base": sys.base_prefix, "platbase": sys.base_prefix})
    folders.append(Path(base))
    # <prefix>/lib/python3.x/site-packages/tunesmith, and <target>/tunesmith of `pip install --target`.
    if package.parent.name in ("site-packages", "dist-packages") and len(package.parents) > 3:
        folders.append(package.parents[3] / "bin")
    folders.append(package.parent / "bin")
    folders.append(Path(sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user"))))
    for folder in folders:
        program = folder / "tunesmith"
        if program.is_file() and os.access(program, os.X_OK):
            return program
    searched = "\n".join(f"  {folder}" for folder in dict.fromkeys(folders))
    raise FileNotFoundError(
        "the program tunesmith is not installed: this package is the client alone, or its scripts were moved. "
        f"Searched:\n{searched}"
    )


def main() -> None:
    """Replaces this process by the program, with the same arguments."""
    try:
        program = find_program()
    except FileNotFoundError as error:
        sys.exit(f"error: {error}")
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
