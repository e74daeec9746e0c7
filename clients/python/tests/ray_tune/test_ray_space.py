"""Domains of Ray Tune as parameters, and their values in both directions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from ray import tune
from ray.tune.search.sample import Float

from tunesmith import Parameter, categorical, double, integer
from tunesmith.errors import SearchEnded
from tunesmith.ray import TunesmithSearch


def search_of(space: dict[str, Any], **arguments: Any) -> TunesmithSearch:
    return TunesmithSearch(space, "loss", "min", seed=1, **arguments)


def parameter_of(domain: Any) -> Parameter:
    (parameter,) = search_of({"x": domain}).optimizer.parameters
    return parameter


def suggested(search: TunesmithSearch, count: int) -> list[dict[str, Any]]:
    configs = []
    for i in range(count):
        config = search.suggest(f"t{i}")
        assert isinstance(config, dict)
        search.on_trial_complete(f"t{i}", {"loss": float(i)})
        configs.append(config)
    return configs


def all_values(domain: Any) -> list[Any]:
    """All values of a finite domain, as suggestions without an end give them."""
    search = search_of({"x": domain})
    values: list[Any] = []
    while (config := search.suggest(f"t{len(values)}")) != "FINISHED":
        assert isinstance(config, dict)
        values.append(config["x"])
        search.on_trial_complete(f"t{len(values) - 1}", {"loss": 0.0})
    return sorted(values)


def test_continuous_domains_include_their_bounds() -> None:
    assert parameter_of(tune.uniform(-1, 2)) == double("x", -1, 2)
    assert parameter_of(tune.loguniform(1e-4, 1)) == double("x", 1e-4, 1, scale="log")


def test_domains_of_integers_exclude_their_upper_bound() -> None:
    assert parameter_of(tune.randint(0, 5)) == integer("x", 0, 4)
    assert parameter_of(tune.lograndint(1, 100)) == integer("x", 1, 99, scale="log")
    assert all_values(tune.randint(-1, 3)) == [-1, 0, 1, 2]


def test_quantized_domains_include_their_upper_bound() -> None:
    assert all_values(tune.quniform(0, 0.5, 0.1)) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert all_values(tune.qrandint(4, 16, 4)) == [4, 8, 12, 16]
    assert all_values(tune.qlograndint(2, 8, 2)) == [2, 4, 6, 8]
    assert all_values(tune.qloguniform(0.25, 1, 0.25)) == [0.25, 0.5, 0.75, 1.0]
    assert parameter_of(tune.qloguniform(0.25, 1, 0.25)) == integer("x", 1, 4, scale="log")


def test_bounds_off_the_grid_round_inwards() -> None:
    assert all_values(tune.qrandint(3, 13, 4)) == [4, 8, 12]


def test_a_step_of_one_keeps_the_upper_bound_excluded_for_integers_only() -> None:
    assert all_values(tune.qrandint(0, 3, 1)) == [0, 1, 2]
    assert all_values(tune.qlograndint(1, 4, 1)) == [1, 2, 3]
    assert all_values(tune.quniform(0, 3, 1)) == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "domain",
    [tune.qrandint(3, 13, 4), tune.qrandint(0, 3, 1), tune.randint(-2, 2), tune.qlograndint(1, 9, 3)],
    ids=["off the grid", "step of one", "integers", "log"],
)
def test_the_finite_values_are_those_that_ray_samples(domain: Any) -> None:
    drawn = {domain.sample(random_state=seed) for seed in range(200)}
    assert all_values(domain) == sorted(drawn)


def test_a_normal_distribution_is_a_range_with_a_prior() -> None:
    search = search_of({"x": tune.randn(10, 2), "y": tune.qrandn(10, 2, 0.5)})
    assert search.optimizer.parameters == (double("x", 2, 18), integer("y", 4, 36))
    priors = search.optimizer.config["tunesmith"]["priors"]
    assert [(prior["parameter"], float(prior["mode"]), prior["spread"]) for prior in priors] == [
        ("x", 10.0, 0.125),
        ("y", 20.0, 0.125),
    ]
    first = search.suggest("t0")
    assert first == {"x": 10.0, "y": 10.0}
    for config in suggested(search, 20)[1:]:
        assert 2 <= config["x"] <= 18
        assert config["y"] * 2 == round(config["y"] * 2)


def test_values_have_the_types_of_their_domains() -> None:
    space = {
        "a": tune.uniform(0, 1),
        "b": tune.randint(0, 5),
        "c": tune.quniform(0, 4, 2),
        "d": tune.qrandint(0, 4, 2),
        "e": tune.choice([1, 1.5, "1", None, True]),
    }
    for config in suggested(search_of(space), 20):
        assert [type(config[name]) for name in "abcd"] == [float, int, float, int]
        assert any(config["e"] is option for option in space["e"].categories)


def test_options_are_given_back_themselves() -> None:
    options = [np.zeros(3), {"hidden": [1, 2]}, math.sqrt, "", "", (1, 2)]
    search = search_of({"x": tune.choice(options)})
    assert search.optimizer.parameters[0].values[3:] == ("#3", "#4", "(1, 2)")
    found = {id(search.suggest(f"t{i}")["x"]) for i in range(6)}
    assert found == {id(option) for option in options}


def test_nested_configurations_keep_their_shape_and_their_constants() -> None:
    space = {
        "epochs": 3,
        "net": {"lr": tune.loguniform(1e-3, 1), "layers": [tune.randint(1, 4), 7, (tune.randint(4, 8), "relu")]},
        "empty": {},
    }
    search = search_of(space)
    names = [parameter.name for parameter in search.optimizer.parameters]
    assert names == ["net/lr", "net/layers[0]", "net/layers[2][0]"]
    for config in suggested(search, 5):
        assert config["epochs"] == 3
        assert config["empty"] == {}
        assert 1e-3 <= config["net"]["lr"] <= 1
        first, second, third = config["net"]["layers"]
        assert (1 <= first <= 3, second, 4 <= third[0] <= 7, third[1:]) == (True, 7, True, ("relu",))


def test_domains_inside_an_option_exist_only_with_this_option() -> None:
    space = {
        "optimizer": tune.choice(
            [{"name": "sgd", "momentum": tune.uniform(0, 0.9)}, {"name": "adam"}, tune.quniform(0, 1, 0.5)]
        )
    }
    search = search_of(space)
    (parameter,) = search.optimizer.parameters
    assert parameter == (
        categorical("optimizer", ["option 0", "{'name': 'adam'}", "option 2"])
        .when("option 0", double("optimizer[0]/momentum", 0, 0.9))
        .when("option 2", integer("optimizer[2]", 0, 2))
    )
    seen = set()
    for config in suggested(search, 30):
        value = config["optimizer"]
        if isinstance(value, float):
            assert value in (0.0, 0.5, 1.0)
            seen.add("number")
        else:
            assert value.keys() == ({"name", "momentum"} if value["name"] == "sgd" else {"name"})
            seen.add(value["name"])
    assert seen == {"sgd", "adam", "number"}


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"a": {"b": tune.grid_search([1, 2])}}, "a/b: grid_search is not supported; use tune.choice"),
        ({"a": tune.sample_from(lambda config: 1)}, "a: sample_from is not supported"),
        ({"a": {"eval": "1 + 1"}}, r"a: an expression \('eval'\) is not supported"),
        ({"a": [tune.choice([tune.grid_search([1])])]}, r"a\[0\]\[0\]: grid_search is not supported"),
        ({"a": tune.randint(3, 3)}, "a: there is no value from 3 to 3"),
        ({"a": tune.qrandint(5, 7, 4)}, "a: there is no value from 5 to 7 in steps of 4"),
        ({"a": tune.uniform(2, 1)}, "a: the lower bound 2 is above the upper bound 1"),
        ({"a": tune.choice([])}, "a: choice has no options"),
        ({"a": Float(0, None)}, "a: the bounds 0 and inf are not finite"),
        (
            {"a/b": tune.uniform(0, 1), "a": {"b": tune.uniform(0, 1)}},
            "two domains of the search space have the path 'a/b'",
        ),
        ({"a": 1}, "the search space has no domain"),
    ],
)
def test_what_cannot_be_searched_is_refused_by_name(space: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        search_of(space)
    with pytest.raises(ValueError, match=message):
        TunesmithSearch().set_search_properties("loss", "min", space)


def test_points_to_evaluate_come_first_and_are_completed() -> None:
    space = {
        "epochs": 3,
        "net": {"lr": tune.uniform(0, 1), "width": tune.qrandint(8, 64, 8)},
        "opt": tune.choice([{"name": "sgd", "momentum": tune.uniform(0, 1)}, {"name": "adam"}]),
    }
    points = [
        {"net": {"lr": 0.25, "width": 16}, "opt": {"name": "sgd", "momentum": 0.5}},
        {"net/lr": 0.75, "opt": {"name": "adam"}, "epochs": 3},
    ]
    first, second, *_ = suggested(search_of(space, points_to_evaluate=points), 3)
    assert first == {"epochs": 3, **points[0]}
    assert (second["net"]["lr"], second["opt"], second["net"]["width"] % 8) == (0.75, {"name": "adam"}, 0)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ({"x": 2.0}, r"points_to_evaluate\[0\]: x: 2.0 is outside of 0.0 to 1.0"),
        ({"x": "wide"}, "x: 'wide' is not a finite number"),
        ({"n": 5}, "n: 5 is outside of 0 to 4"),
        ({"n": 1.5}, "n: 1.5 is not an integer"),
        ({"n": True}, "n: True is not an integer"),
        ({"q": 0.3}, "q: 0.3 is not a multiple of 0.25"),
        ({"q": 1.25}, "q: 1.25 is outside of 0.00 to 1.00"),
        ({"c": "d"}, "c: 'd' is not one of the options a, b"),
        ({"k": 2}, "k: 2 is not the constant 1"),
        ({"m": 2}, "m is not part of the search space; expected one of 'x', 'n', 'q', 'c', 'k', 'l'"),
        ({"l": [1]}, r"l: \[1\] is not a sequence of 2 values"),
        ({"x": math.nan}, "x: nan is not a finite number"),
    ],
)
def test_points_outside_of_the_space_are_refused(point: dict[str, Any], message: str) -> None:
    space = {
        "x": tune.uniform(0, 1),
        "n": tune.randint(0, 5),
        "q": tune.quniform(0, 1, 0.25),
        "c": tune.choice(["a", "b"]),
        "k": 1,
        "l": [tune.uniform(0, 1), tune.uniform(0, 1)],
    }
    with pytest.raises(ValueError, match=message):
        search_of(space, points_to_evaluate=[point])


def test_options_of_equal_value_are_told_apart_by_type() -> None:
    space = {"c": tune.choice([1, 1.0, True, "1"])}
    points = [{"c": True}, {"c": "1"}, {"c": 1.0}, {"c": 1}]
    configs = suggested(search_of(space, points_to_evaluate=points), 4)
    assert [repr(config["c"]) for config in configs] == ["True", "'1'", "1.0", "1"]


def test_numbers_of_numpy_are_points() -> None:
    space = {"x": tune.uniform(0, 1), "n": tune.randint(0, 5), "q": tune.quniform(0, 1, 0.25)}
    point = {"x": np.float32(0.5), "n": np.int64(3), "q": np.float64(0.75)}
    (config,) = suggested(search_of(space, points_to_evaluate=[point]), 1)
    assert config == {"x": 0.5, "n": 3, "q": 0.75}


def test_the_end_of_a_finite_space_is_finished() -> None:
    search = search_of({"x": tune.choice(["a", "b"])})
    suggested(search, 2)
    assert search.suggest("t2") == "FINISHED"
    with pytest.raises(SearchEnded):
        search.optimizer.ask()


def test_objects_that_the_tuner_hides_are_told_about() -> None:
    hidden = ("__ref_ph", "0a1b2c3d")
    space = {"x": tune.choice([hidden, 1]), "constant": hidden}
    search = search_of(space, points_to_evaluate=[{"x": 1, "constant": math.sqrt}])
    assert search.suggest("t0") == {"x": 1, "constant": hidden}
    with pytest.raises(ValueError, match="the Tuner hides the objects of its param_space, so give the space to"):
        search_of(space, points_to_evaluate=[{"x": math.sqrt}])


def test_a_normal_distribution_inside_of_an_option_keeps_its_prior() -> None:
    search = search_of({"c": tune.choice([{"x": tune.randn(1, 0.5)}, "none"])})
    values = [config["c"]["x"] for config in suggested(search, 12) if config["c"] != "none"]
    assert values[0] == 1.0
    assert all(-1 <= value <= 3 for value in values)
