"""Shorthand of search spaces."""

from __future__ import annotations

import math
from typing import Any

import pytest

import tunesmith
from tunesmith._space import SearchSpace


def test_ranges_are_integers_between_two_ints_and_otherwise_doubles() -> None:
    space = SearchSpace(
        {"n": (1, 8), "x": (0, 1.0), "rate": (1e-4, 1.0, "log"), "m": (1, 100, "log"), "r": (0.5, 0.9, "reverse_log")}
    )
    assert space.parameters == (
        tunesmith.integer("n", 1, 8),
        tunesmith.double("x", 0, 1),
        tunesmith.double("rate", 1e-4, 1, scale="log"),
        tunesmith.integer("m", 1, 100, scale="log"),
        tunesmith.double("r", 0.5, 0.9, scale="reverse_log"),
    )


def test_lists_of_numbers_are_discrete_and_other_lists_categorical() -> None:
    big = 2**53 + 1
    space = SearchSpace({"n": [32, 16, 2.5], "c": ["b", "a"], "mixed": [None, True, 1, "None", 0.5], "big": [big, 1]})
    assert space.parameters == (
        tunesmith.discrete("n", [2.5, 16.0, 32.0]),
        tunesmith.categorical("c", ["b", "a"]),
        tunesmith.categorical("mixed", ["None (NoneType)", "True", "1", "None", "0.5"]),
        tunesmith.categorical("big", [str(big), "1"]),
    )


def test_the_very_choices_are_given_back() -> None:
    text = "".join(["a", "dam"])
    choices: list[Any] = [None, True, 1, text]
    space = {"c": choices, "n": [1, 2.5, 10**3], "only": [7]}
    seen: list[dict[str, Any]] = []

    def objective(parameters: dict[str, Any]) -> float:
        seen.append(dict(parameters))
        return 1.0 if parameters["c"] is None else 2.0

    result = tunesmith.minimize(objective, space, trials=12, seed=1)
    assert len(seen) == 12
    assert {id(parameters["c"]) for parameters in seen} == {id(choice) for choice in choices}
    for parameters in seen:
        assert list(parameters) == ["c", "n", "only"]
        assert any(parameters["n"] is choice for choice in space["n"])
        assert type(parameters["only"]) is int
    assert result.parameters["c"] is None
    assert [trial.parameters for trial in result.trials] == seen


def test_a_parameter_may_stand_among_shorthand() -> None:
    momentum = tunesmith.categorical("o", ["adam", "sgd"]).when("sgd", tunesmith.double("momentum", 0, 1))
    assert SearchSpace({"o": momentum, "n": (1, 2)}).parameters == (momentum, tunesmith.integer("n", 1, 2))
    with pytest.raises(ValueError, match="under 'p' has another name, 'o'"):
        SearchSpace({"p": momentum})


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, "there are no parameters"),
        ([], "there are no parameters"),
        ("x", "'x' is neither a sequence of parameters nor a mapping"),
        ([("x", 1, 2)], r"\('x', 1, 2\) is not a parameter; use double"),
        ({3: (0, 1)}, "the name 3 of a parameter is not a text"),
        ({"x": 5}, r"parameter 'x': 5 is not \(low, high\)"),
        ({"x": {1, 2}}, r"parameter 'x': \{1, 2\} is not"),
        ({"x": (1,)}, r"parameter 'x': the range \(1,\) is not"),
        ({"x": (1, 2, "log", 3)}, "parameter 'x': the range .* is not"),
        ({"x": ("a", "b")}, "parameter 'x': the bound 'a' .* choices are a list"),
        ({"x": (False, True)}, "parameter 'x': the bound False"),
        ({"x": (0.0, math.inf)}, "parameter 'x': the bound inf .* is not finite"),
        ({"x": (2, 1)}, "parameter 'x': the range .* is empty, since 2 is above 1"),
        ({"x": (1, 2, "logarithmic")}, "the scale 'logarithmic' is not one of 'linear', 'log', 'reverse_log'"),
        ({"x": (0.0, 1.0, "log")}, "parameter 'x': the scale 'log' needs bounds above 0, not 0.0"),
        ({"x": []}, "parameter 'x': the list of choices is empty"),
        ({"x": [1, (2,)]}, r"parameter 'x': the choice \(2,\) is not a text, number, bool or None"),
        ({"x": [1.0, math.nan]}, "parameter 'x': the choice nan is not finite"),
        ({"x": [1, 2, 1.0]}, "parameter 'x': the choices 1 and 1.0 are the same"),
        ({"x": ["a", None, "a"]}, "parameter 'x': the choices 'a' and 'a' are the same"),
    ],
)
def test_errors_name_the_parameter_and_what_is_allowed(space: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        tunesmith.minimize(lambda parameters: 0.0, space)
