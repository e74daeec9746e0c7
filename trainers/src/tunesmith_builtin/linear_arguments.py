"""Arguments of the linear learner.

The published algorithm is a TensorFlow estimator; this one is scikit-learn's network without hidden layers, which is
the same model. scikit-learn has the optimisers Adam and SGD, and no FTRL: what only FTRL has is refused.
"""

from __future__ import annotations

from .arguments import Argument, Arguments, choice, integer, real
from .data_arguments import DATA_ARGUMENTS, check_data
from .errors import InputError, notice

# The published default is unknown.
DEFAULT_STEPS = 1000

_FTRL_ONLY = ("l1_regularization_strength", "l2_regularization_strength", "l2_shrinkage_regularization_strength")

_moment = real(0, 1, above=True, below=True)

TABLE = (
    *DATA_ARGUMENTS,
    Argument("model_type", choice("classification", "regression")),
    Argument("max_steps", integer(-1), default=DEFAULT_STEPS),
    Argument("max_train_secs", integer(-1), default=-1),
    Argument("learning_rate", real(0, above=True), default=0.001),
    Argument("batch_size", integer(1), default=100),
    Argument("eval_steps", integer(), default=0),
    Argument("eval_frequency_secs", integer(1)),
    Argument("optimizer_type", choice("adam", "sgd", "ftrl"), default="adam"),
    *(Argument(name, real(0), default=0.0) for name in _FTRL_ONLY),
    Argument("beta_1", _moment, default=0.9),
    Argument("beta_2", _moment, default=0.999),
)


def check(arguments: Arguments) -> None:
    """Checks required arguments and combinations, and names those without effect.

    Raises:
        InputError: for the first violation.
    """
    check_data(arguments)
    if arguments["model_type"] is None:
        raise InputError("--model_type is required: classification or regression")
    if arguments["optimizer_type"] == "ftrl":
        raise InputError("--optimizer_type=ftrl has no equivalent in scikit-learn, its library; use adam or sgd")
    for name in _FTRL_ONLY:
        if arguments[name] > 0:
            raise InputError(
                f"--{name}={arguments[name]:g} belongs to the optimiser ftrl, which scikit-learn lacks; leave it at 0"
            )
    steps, seconds = arguments["max_steps"], arguments["max_train_secs"]
    if steps == 0 or seconds == 0:
        raise InputError("--max_steps and --max_train_secs are at least 1, or -1 for no limit")
    if steps < 0 and seconds < 0:
        raise InputError("--max_steps=-1 sets no limit on steps; give --max_train_secs, or a number of steps")
    if arguments["optimizer_type"] == "sgd":
        for name in ("beta_1", "beta_2"):
            if name in arguments.given:
                notice(f"--{name} has no effect: it belongs to the optimiser adam")
    if "eval_frequency_secs" in arguments.given:
        notice("--eval_frequency_secs has no effect: the model is evaluated 20 times, at even distances of steps")
