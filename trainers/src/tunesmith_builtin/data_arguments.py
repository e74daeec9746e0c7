"""Arguments of the data rules, which all algorithms share, and their combinations."""

from __future__ import annotations

from .arguments import Argument, Arguments, any_text, integer, real, text
from .errors import InputError

DEFAULT_SPLIT = 0.2

DATA_ARGUMENTS = (
    Argument("training_data_path", text, is_data=True),
    Argument("validation_data_path", any_text, default="", is_data=True),
    Argument("test_data_path", any_text, default="", is_data=True),
    Argument("preprocess", any_text, default=False, is_flag=True, is_data=True),
    Argument("validation_split", real(0, 1, below=True), default=DEFAULT_SPLIT, is_data=True),
    Argument("test_split", real(0, 1, below=True), default=DEFAULT_SPLIT, is_data=True),
    Argument("job_dir", text, is_data=True),
    Argument("seed", integer(0, 2**31 - 1), default=0),
)


def check_data(arguments: Arguments) -> None:
    """Checks required arguments and exclusive ones.

    Raises:
        InputError: for the first violation.
    """
    for name in ("training_data_path", "job_dir"):
        if arguments[name] is None:
            raise InputError(f"--{name.replace('job_dir', 'job-dir')} is required")
    if arguments["preprocess"]:
        for name in ("validation_data_path", "test_data_path"):
            if arguments[name]:
                raise InputError(f"--{name} excludes --preprocess, which splits the training data itself")
        total = arguments["validation_split"] + arguments["test_split"]
        if total >= 1:
            raise InputError(
                f"--validation_split and --test_split take {total:g} of the rows; a sum below 1 is required, "
                f"and each is {DEFAULT_SPLIT} by default"
            )
    else:
        for name in ("validation_split", "test_split"):
            if arguments.given.get(name):
                raise InputError(f"--{name} needs --preprocess; without it, give --{name.split('_')[0]}_data_path")
