"""Command line of the trainers."""

from __future__ import annotations

import pytest

from tunesmith_builtin import arguments, boosted_trees_arguments, linear_arguments
from tunesmith_builtin.arguments import Arguments
from tunesmith_builtin.errors import InputError


def boosted(*given: str) -> Arguments:
    parsed = arguments.parse(
        boosted_trees_arguments.TABLE,
        ["--training_data_path=d.csv", "--job-dir=j", "--objective=reg:linear", *given],
    )
    boosted_trees_arguments.check(parsed)
    return parsed


def linear(*given: str) -> Arguments:
    parsed = arguments.parse(
        linear_arguments.TABLE, ["--training_data_path=d.csv", "--job-dir=j", "--model_type=regression", *given]
    )
    linear_arguments.check(parsed)
    return parsed


def test_the_published_list_of_the_console_is_accepted() -> None:
    published = (
        "--preprocess --training_data_path=gs://b/birds.csv --validation_split=0.3 --test_split=0.1 "
        "--objective=reg:linear --booster=gbtree --subsample=1 --colsample_bytree=1 --lambda=1 --tree_method=auto "
        "--colsample_bylevel=1 --scale_pos_weight=1 --updater=grow_colmaker,prune --refresh_leaf=0 "
        "--process_type=default --grow_policy=depthwise --num_boost_round=10 --max_depth=6 --eta=0.3 --csv_weight=0 "
        "--base_score=0.5"
    )
    parsed = boosted(*published.split())
    assert parsed["preprocess"] is True
    assert parsed["validation_split"] == 0.3
    passed = boosted_trees_arguments.parameters(parsed)
    assert passed["updater"] == "grow_colmaker,prune"
    assert passed["eval_metric"] == ["rmse"]
    assert not {"num_boost_round", "csv_weight", "preprocess", "job_dir", "refresh_leaf"} & set(passed)


@pytest.mark.parametrize(("form", "expected"), [("", True), ("=true", True), ("=false", False)])
def test_a_flag_has_three_forms(form: str, expected: bool) -> None:
    assert boosted(f"--preprocess{form}")["preprocess"] is expected


def test_values_may_follow_and_the_last_one_counts() -> None:
    parsed = boosted("--eta", "0.1", "--eta=0.2", "--max_depth=3.0")
    assert parsed["eta"] == 0.2
    assert parsed["max_depth"] == 3
    assert parsed["num_boost_round"] == 10


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--etta=0.1", "unknown argument --etta; did you mean --eta?"),
        ("--num-boost-round=3", "unknown argument --num-boost-round; did you mean --num_boost_round?"),
        ("--eta=2", "--eta=2: a value of at most 1 is required"),
        ("--eta=much", "--eta=much: a number is required"),
        ("--eta=nan", "--eta=nan: a finite number is required"),
        ("--subsample=0", "--subsample=0: a value above 0 is required"),
        ("--max_depth=2.5", "--max_depth=2.5: a whole number is required"),
        ("--booster=forest", "--booster=forest: one of gbtree, gblinear, dart is required"),
        ("--preprocess=yes", "--preprocess=yes: a flag is --preprocess, --preprocess=true or --preprocess=false"),
        ("--eta", "--eta has no value; give --eta=VALUE"),
        ("eta=1", "unexpected argument 'eta=1': arguments have the form --name=value"),
        ("--tree_method=gpu_hist", "--tree_method=gpu_hist: this trainer runs on processors; use hist"),
        ("--objective=multi:softmax", "--objective=multi:softmax needs --num_class, the number of classes"),
        ("--num_class=3", "--num_class needs --objective=multi:softmax or multi:softprob, not reg:linear"),
        ("--validation_split=0.3", "--validation_split needs --preprocess; without it, give --validation_data_path"),
        ("--process_type=update", "--process_type=update continues an existing model"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(argument: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        boosted(argument)
    assert str(raised.value).startswith(message)


def test_splits_and_files_exclude_each_other() -> None:
    with pytest.raises(InputError, match="--validation_data_path excludes --preprocess"):
        boosted("--preprocess", "--validation_data_path=v.csv")
    with pytest.raises(InputError, match=r"take 1\.2 of the rows; a sum below 1 is required"):
        boosted("--preprocess", "--validation_split=0.9", "--test_split=0.3")
    assert boosted("--preprocess", "--test_split=0")["test_split"] == 0


def test_metrics_are_the_published_ones_and_those_asked_for() -> None:
    expected = {
        "reg:linear": "rmse",
        "reg:logistic": "rmse",
        "binary:logistic": "error",
        "count:poisson": "poisson-nloglik",
        "multi:softprob": "merror",
        "reg:gamma": "gamma-nloglik",
        "reg:tweedie": "tweedie-nloglik@1.5",
    }
    for objective, metric in expected.items():
        classes = ["--num_class=3"] if objective.startswith("multi:") else []
        assert boosted_trees_arguments.metrics(boosted(f"--objective={objective}", *classes)) == [metric]
    parsed = boosted("--objective=binary:logistic", "--eval_metric=auc")
    assert boosted_trees_arguments.metrics(parsed) == ["error", "auc"]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--optimizer_type=ftrl", "--optimizer_type=ftrl has no equivalent in scikit-learn"),
        ("--l1_regularization_strength=0.1", "--l1_regularization_strength=0.1 belongs to the optimiser ftrl"),
        ("--max_steps=-1", "--max_steps=-1 sets no limit on steps; give --max_train_secs"),
        ("--max_steps=0", "--max_steps and --max_train_secs are at least 1"),
        ("--hidden_units=30,30", "unknown argument --hidden_units"),
    ],
)
def test_arguments_without_an_equivalent_are_refused(argument: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        linear(argument)
    assert str(raised.value).startswith(message)


def test_arguments_without_effect_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    linear("--eval_frequency_secs=128", "--optimizer_type=sgd", "--beta_1=0.5", "--l2_regularization_strength=0")
    log = capsys.readouterr().err
    assert "notice: --eval_frequency_secs has no effect" in log
    assert "notice: --beta_1 has no effect" in log
    boosted("--sketch_eps=0.1", "--refresh_leaf=0")
    log = capsys.readouterr().err
    assert "notice: --sketch_eps has no effect" in log
    assert "notice: --refresh_leaf has no effect" in log
