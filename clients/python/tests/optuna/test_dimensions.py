"""Distributions and their values in Optuna and in Tunesmith."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from tunesmith.optuna._dimension import dimension

CATEGORIES = CategoricalDistribution([None, True, 1.5, "1", 7])


@pytest.mark.parametrize(
    ("distribution", "message"),
    [
        (
            FloatDistribution(-1, 2),
            {"parameter": "'x'", "type": "DOUBLE", "doubleValueSpec": {"minValue": -1.0, "maxValue": 2.0}},
        ),
        (
            FloatDistribution(1e-7, 10, log=True),
            {
                "parameter": "'x'",
                "type": "DOUBLE",
                "scaleType": "UNIT_LOG_SCALE",
                "doubleValueSpec": {"minValue": 1e-7, "maxValue": 10.0},
            },
        ),
        (
            FloatDistribution(-10.2, 10.2, step=0.1),
            {"parameter": "'x'", "type": "INTEGER", "integerValueSpec": {"minValue": "0", "maxValue": "204"}},
        ),
        (
            IntDistribution(1, 100, log=True),
            {
                "parameter": "'x'",
                "type": "INTEGER",
                "scaleType": "UNIT_LOG_SCALE",
                "integerValueSpec": {"minValue": "1", "maxValue": "100"},
            },
        ),
        (
            IntDistribution(-10, 10, step=4),
            {"parameter": "'x'", "type": "INTEGER", "integerValueSpec": {"minValue": "0", "maxValue": "5"}},
        ),
        (
            CATEGORIES,
            {
                "parameter": "'x'",
                "type": "CATEGORICAL",
                "categoricalValueSpec": {"values": ["0", "1", "2", "3", "4"]},
            },
        ),
    ],
)
def test_a_distribution_becomes_the_parameter_of_the_same_range_and_scale(
    distribution: BaseDistribution, message: dict[str, Any]
) -> None:
    assert dimension("x", distribution).parameter().to_message() == message


@pytest.mark.parametrize(
    ("distribution", "externals"),
    [
        (FloatDistribution(-1, 2), [-1.0, 0.123456789, 2.0]),
        (FloatDistribution(1e-7, 10, log=True), [1e-7, 0.5, 10.0]),
        (FloatDistribution(-10.2, 10.2, step=0.1), [-10.2, -9.9, 0.0, 0.3, 10.2]),
        (FloatDistribution(0, 1, step=1e-6), [0.0, 0.123457, 1.0]),
        (IntDistribution(-10, 11), [-10, 0, 11]),
        (IntDistribution(-10, 10, step=4), [-10, -2, 10]),
        (CATEGORIES, [None, True, 1.5, "1", 7]),
    ],
)
def test_values_survive_both_ways_with_their_types(distribution: BaseDistribution, externals: list[Any]) -> None:
    each = dimension("x", distribution)
    values = [each.of_external(external) for external in externals]
    assert None not in values
    back = [each.to_external(value) for value in values if value is not None]
    assert back == externals
    assert [type(value) for value in back] == [type(value) for value in externals]


def test_values_of_optunas_own_arithmetic_are_points_of_the_grid() -> None:
    each = dimension("x", FloatDistribution(-10.2, 10.2, step=0.1))
    assert [each.of_external(-10.2 + index * 0.1) for index in range(205)] == list(range(205))


@pytest.mark.parametrize(
    ("distribution", "external"),
    [
        (FloatDistribution(0, 1), 1.0001),
        (FloatDistribution(0, 1), "wide"),
        (FloatDistribution(0, 1, step=0.25), 0.3),
        (FloatDistribution(0, 1, step=0.25), 1.25),
        (FloatDistribution(0, 1, step=0.25), float("inf")),
        (IntDistribution(0, 10), 11),
        (IntDistribution(0, 10), 2.5),
        (IntDistribution(0, 10, step=5), 3),
        (IntDistribution(0, 10, step=5), 15),
        (CategoricalDistribution(["a", "b"]), "c"),
    ],
)
def test_values_outside_have_no_counterpart(distribution: BaseDistribution, external: Any) -> None:
    assert dimension("x", distribution).of_external(external) is None


@pytest.mark.parametrize(
    ("distribution", "middle"),
    [
        (FloatDistribution(-1, 2), 0.5),
        (FloatDistribution(1e-4, 1e2, log=True), 0.1),
        (FloatDistribution(0, 1, step=0.25), 0.5),
        (IntDistribution(0, 10), 5),
        (IntDistribution(1, 100, log=True), 10),
        (IntDistribution(0, 20, step=5), 10),
    ],
)
def test_the_middle_is_that_of_the_scale(distribution: BaseDistribution, middle: Any) -> None:
    each = dimension("x", distribution)
    assert each.to_external(each.middle()) == pytest.approx(middle)


def test_the_first_category_stands_for_the_middle() -> None:
    each = dimension("x", CategoricalDistribution(["a", "b"]))
    assert each.to_external(each.middle()) == "a"


@pytest.mark.parametrize(
    "distribution",
    [
        FloatDistribution(0.2, 0.4),
        FloatDistribution(1e-300, 1e300, log=True),
        FloatDistribution(-8e307, 8e307),
        FloatDistribution(0, 1, step=0.25),
        IntDistribution(-1, 1),
        IntDistribution(1, 3, log=True),
        IntDistribution(0, 20, step=5),
        CategoricalDistribution(["a", "b", None]),
    ],
)
def test_draws_are_points_of_the_distribution_and_reach_all_of_it(distribution: BaseDistribution) -> None:
    each, random = dimension("x", distribution), Random(1)
    drawn = [each.to_external(each.draw(random)) for _ in range(200)]
    assert all(each.of_external(value) is not None for value in drawn)
    if each.finite is None:
        assert len(set(drawn)) == 200
    else:
        assert len(set(drawn)) == len(each.finite)


def test_integers_beyond_64_bits_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"parameter 'n': 9223372036854775808 is outside the integers of 64 bits"):
        dimension("n", IntDistribution(0, 2**63)).parameter()
