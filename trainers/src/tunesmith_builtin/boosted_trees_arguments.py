"""Arguments of boosted trees: XGBoost's parameters by their own names, with the published ranges.

Only arguments that are given are passed to XGBoost, so that its defaults apply to the others.
"""

from __future__ import annotations

from typing import Any

from .arguments import Argument, Arguments, any_text, choice, integer, real, text
from .data_arguments import DATA_ARGUMENTS, check_data
from .errors import InputError, notice

# The published metric of the validation data, by objective; XGBoost itself has others since 1.3.
METRICS = {
    "reg:linear": "rmse",
    "reg:squarederror": "rmse",
    "reg:logistic": "rmse",
    "binary:logistic": "error",
    "binary:logitraw": "error",
    "count:poisson": "poisson-nloglik",
    "multi:softmax": "merror",
    "multi:softprob": "merror",
    "reg:gamma": "gamma-nloglik",
    "reg:tweedie": "tweedie-nloglik",
}

DEFAULT_ROUNDS = 10

# Arguments of the trainer, which are no parameters of XGBoost.
_OWN = ("num_boost_round", "csv_weight", "early_stopping_rounds", "objective", "eval_metric", "num_class", "seed")

_share = real(0, 1, above=True)
_not_negative = real(0)
_switch = integer(0, 1)

TABLE = (
    *DATA_ARGUMENTS,
    Argument("objective", choice(*METRICS)),
    Argument("num_boost_round", integer(1), default=DEFAULT_ROUNDS),
    Argument("num_class", integer(2)),
    Argument("csv_weight", _switch, default=0),
    Argument("eval_metric", text),
    Argument("early_stopping_rounds", integer(1)),
    Argument("booster", choice("gbtree", "gblinear", "dart")),
    Argument("eta", real(0, 1)),
    Argument("gamma", _not_negative),
    Argument("max_depth", integer(0)),
    Argument("min_child_weight", _not_negative),
    Argument("max_delta_step", _not_negative),
    Argument("subsample", _share),
    Argument("colsample_bytree", _share),
    Argument("colsample_bylevel", _share),
    Argument("colsample_bynode", _share),
    Argument("lambda", _not_negative),
    Argument("alpha", _not_negative),
    Argument("tree_method", choice("auto", "exact", "approx", "hist", "gpu_exact", "gpu_hist")),
    Argument("sketch_eps", real(0, 1, above=True, below=True)),
    Argument("scale_pos_weight", real()),
    Argument("updater", any_text),
    Argument("refresh_leaf", _switch),
    Argument("process_type", choice("default", "update")),
    Argument("grow_policy", choice("depthwise", "lossguide")),
    Argument("max_leaves", integer(0)),
    Argument("max_bin", integer(2)),
    Argument("base_score", real()),
    Argument("sample_type", choice("uniform", "weighted")),
    Argument("normalize_type", choice("tree", "forest")),
    Argument("rate_drop", real(0, 1)),
    Argument("one_drop", _switch),
    Argument("skip_drop", real(0, 1)),
    Argument("feature_selector", choice("cyclic", "shuffle", "random", "greedy", "thrifty")),
    Argument("top_k", integer(0)),
    Argument("num_parallel_tree", integer(1)),
    Argument("tweedie_variance_power", real(1, 2, above=True, below=True)),
    Argument("huber_slope", real(0, above=True)),
    Argument("max_cat_to_onehot", integer(1)),
    Argument("monotone_constraints", any_text),
    Argument("interaction_constraints", any_text),
    Argument("sampling_method", choice("uniform")),
    Argument("nthread", integer(1)),
)


def check(arguments: Arguments) -> None:
    """Checks required arguments and combinations, and names those without effect.

    Raises:
        InputError: for the first violation.
    """
    check_data(arguments)
    objective = arguments["objective"]
    if objective is None:
        raise InputError(f"--objective is required: one of {', '.join(METRICS)}")
    is_multi = objective.startswith("multi:")
    if is_multi and arguments["num_class"] is None:
        raise InputError(f"--objective={objective} needs --num_class, the number of classes")
    if not is_multi and arguments["num_class"] is not None:
        raise InputError(f"--num_class needs --objective=multi:softmax or multi:softprob, not {objective}")
    method = arguments["tree_method"]
    if method in ("gpu_exact", "gpu_hist"):
        raise InputError(f"--tree_method={method}: this trainer runs on processors; use hist, the same algorithm")
    if arguments["process_type"] == "update":
        raise InputError("--process_type=update continues an existing model, which a job does not have; use default")
    if "sketch_eps" in arguments.given:
        notice("--sketch_eps has no effect: XGBoost uses max_bin since 1.6")
    if "max_cat_to_onehot" in arguments.given:
        notice("--max_cat_to_onehot has no effect: categories are encoded as numbers before the training")
    if "refresh_leaf" in arguments.given:
        notice("--refresh_leaf has no effect without --process_type=update")


def parameters(arguments: Arguments) -> dict[str, Any]:
    """Parameters for ``xgboost.train``."""
    data = {argument.name for argument in TABLE if argument.is_data}
    without_effect = {"sketch_eps", "max_cat_to_onehot", "refresh_leaf"}
    left_out = data | set(_OWN) | without_effect
    given = {name: value for name, value in arguments.given.items() if name not in left_out and value != ""}
    # The same objective under its present name.
    given["objective"] = arguments["objective"].replace("reg:linear", "reg:squarederror")
    given["seed"] = arguments["seed"]
    given["eval_metric"] = metrics(arguments)
    if arguments["num_class"] is not None:
        given["num_class"] = arguments["num_class"]
    return given


def metrics(arguments: Arguments) -> list[str]:
    """Names of the metrics: the published one of the objective, then those of ``--eval_metric``.

    The last one decides about ``--early_stopping_rounds``.
    """
    published = METRICS[arguments["objective"]]
    if published == "tweedie-nloglik":
        published = f"tweedie-nloglik@{arguments['tweedie_variance_power'] or 1.5:g}"
    asked = [name.strip() for name in (arguments["eval_metric"] or "").split(",") if name.strip()]
    return [*(name for name in [published] if name not in asked), *dict.fromkeys(asked)]
