"""Inference of spaces from trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from tunesmith.optuna._space import Condition, Space, infer

UNIT = FloatDistribution(0, 1)
OPTIMIZER = CategoricalDistribution(["adam", "sgd", "lion"])
LAYERS = IntDistribution(1, 9)


def trials(
    distributions: Mapping[str, BaseDistribution],
    *rows: dict[str, Any],
    state: TrialState = TrialState.COMPLETE,
) -> list[FrozenTrial]:
    """Returns trials with these values, all of them with the result 0."""
    created = []
    for row in rows:
        own = {name: distributions[name] for name in row}
        values = 0.0 if state == TrialState.COMPLETE else None
        created.append(optuna.create_trial(state=state, params=row, distributions=own, value=values))
    return created


def space_of(distributions: Mapping[str, BaseDistribution], *rows: dict[str, Any]) -> Space:
    return infer(trials(distributions, *rows), {})


def test_a_parameter_of_one_branch_is_conditional_on_the_category() -> None:
    distributions = {"optimizer": OPTIMIZER, "rate": UNIT, "momentum": UNIT}
    space = space_of(
        distributions,
        {"optimizer": "adam", "rate": 0.1},
        {"optimizer": "sgd", "rate": 0.2, "momentum": 0.9},
        {"optimizer": "adam", "rate": 0.3},
    )
    assert list(space.dimensions) == ["momentum", "optimizer", "rate"]
    # "lion" has not been seen: the parameter is assumed to exist for it.
    assert space.conditions == {"momentum": Condition("optimizer", frozenset(["1", "2"]))}
    assert space.unmodelled == {}
    optimizer, rate = space.parameters()
    assert (optimizer.name, rate.name) == ("'optimizer'", "'rate'")
    [(values, child)] = optimizer.children
    assert (values, child.name) == (("1", "2"), "'momentum'")


def test_a_number_of_layers_activates_the_layers_up_to_it() -> None:
    names = {f"units{index}": UNIT for index in range(1, 10)}
    rows: list[dict[str, Any]] = [
        {"layers": n, **{f"units{index}": 0.5 for index in range(1, n + 1)}} for n in (2, 9, 4, 8)
    ]
    space = space_of({"layers": LAYERS, **names}, *rows)
    assert space.unmodelled == {}
    of = {name: sorted(int(value) for value in condition.values) for name, condition in space.conditions.items()}
    # Numbers of layers not seen are like the nearest one seen, and between both like the one with the parameter.
    assert of == {
        "units3": [3, 4, 5, 6, 7, 8, 9],
        "units4": [3, 4, 5, 6, 7, 8, 9],
        "units5": [6, 7, 8, 9],
        "units6": [6, 7, 8, 9],
        "units7": [6, 7, 8, 9],
        "units8": [6, 7, 8, 9],
        "units9": [9],
    }


def test_conditions_nest() -> None:
    distributions = {"a": CategoricalDistribution([True, False]), "b": CategoricalDistribution(["u", "v"]), "c": UNIT}
    space = space_of(distributions, {"a": False}, {"a": True, "b": "u"}, {"a": True, "b": "v", "c": 0.5}, {"a": False})
    assert space.conditions == {
        "b": Condition("a", frozenset(["0"])),
        "c": Condition("b", frozenset(["1"])),
    }
    assert space.existing({"a": "0", "b": "1", "c": 0.5}) == {"a": "0", "b": "1", "c": 0.5}
    assert space.existing({"a": "0", "b": "0"}) == {"a": "0", "b": "0"}
    assert space.existing({"a": "1", "b": "1", "c": 0.5}) == {"a": "1"}
    assert space.existing({"a": "0", "b": "1"}) is None
    assert space.settled({"b": "1", "c": 0.5}) == {}
    assert space.settled({"a": "0", "c": 0.5}) == {"a": "0"}


def test_a_parameter_without_explanation_is_left_out() -> None:
    distributions = {"x": UNIT, "branch": CategoricalDistribution(["u", "v"]), "odd": UNIT}
    space = space_of(
        distributions,
        {"x": 0.1, "branch": "u"},
        {"x": 0.2, "branch": "u", "odd": 0.5},
        {"x": 0.3, "branch": "v", "odd": 0.5},
    )
    assert list(space.dimensions) == ["branch", "x"]
    assert space.unmodelled == {"odd": "no other parameter decides in which trials it exists"}


def test_chance_along_a_number_is_no_condition() -> None:
    rows: list[dict[str, Any]] = [{"layers": n, **({"odd": 0.5} if n % 2 else {})} for n in range(1, 10)]
    assert space_of({"layers": LAYERS, "odd": UNIT}, *rows).unmodelled.keys() == {"odd"}


def test_the_parent_is_rather_one_that_came_before() -> None:
    flag = CategoricalDistribution([True, False])
    rows: list[dict[str, Any]] = [{"z": True, "child": 0.5, "a": True}, {"z": False, "a": False}]
    space = space_of({"a": flag, "z": flag, "child": UNIT}, *rows)
    assert space.conditions["child"].parent == "z"


@pytest.mark.parametrize("state", [TrialState.PRUNED, TrialState.FAIL])
def test_trials_that_ended_early_do_not_show_that_a_parameter_is_missing(state: TrialState) -> None:
    distributions = {"x": UNIT, "y": UNIT}
    complete = trials(distributions, {"x": 0.1, "y": 0.2})
    early = trials(distributions, {"x": 0.1}, state=state)
    space = infer([*complete, *early], {})
    assert list(space.dimensions) == ["x", "y"]
    assert space.conditions == {}


def test_a_range_changed_once_is_adopted_and_one_that_keeps_changing_is_not() -> None:
    def ranges(*highs: float) -> Space:
        created = [
            optuna.create_trial(params={"x": 0}, distributions={"x": FloatDistribution(0, h)}, value=0) for h in highs
        ]
        return infer(created, {})

    assert ranges(1, 1, 2, 2).dimensions["x"].distribution == FloatDistribution(0, 2)
    assert ranges(1, 1, 2).dimensions["x"].distribution == FloatDistribution(0, 2)
    assert ranges(1, 2).dimensions["x"].distribution == FloatDistribution(0, 2)
    assert ranges(1, 1, 2, 3).dimensions == {}
    assert ranges(1, 2, 1).unmodelled == {"x": "its range changes from trial to trial"}


def test_declared_distributions_are_known_before_the_first_trial_and_replace_others() -> None:
    assert list(infer([], {"x": UNIT, "single": FloatDistribution(1, 1)}).dimensions) == ["x"]
    seen = trials({"x": FloatDistribution(0, 5)}, {"x": 0.5})
    assert infer(seen, {"x": UNIT}).dimensions["x"].distribution == UNIT


def test_a_restriction_to_some_parameters_drops_conditions_on_others() -> None:
    distributions = {"a": CategoricalDistribution([True, False]), "b": UNIT}
    space = space_of(distributions, {"a": True, "b": 0.5}, {"a": False})
    assert space.restricted({"b": UNIT}).conditions == {}
    assert space.restricted(distributions).conditions == {"b": Condition("a", frozenset(["0"]))}
