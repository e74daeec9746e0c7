"""Overrides of Hydra as parameters, and values as overrides."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra_plugins.hydra_tunesmith_sweeper._space import Space, encoded, space_of
from omegaconf import DictConfig, OmegaConf
from tunesmith import Optimizer, Parameter, categorical, discrete, double, integer, minimize

CONFIG: DictConfig = OmegaConf.create({"wide": True})


def space(*arguments: str, custom: str | None = None, **params: Any) -> Space:
    # A loader is needed for glob() only.
    return space_of(params, arguments, cast(ConfigLoader, None), custom, CONFIG)


def conditional(config: DictConfig) -> list[Parameter]:
    """A search space for `custom_search_space`."""
    assert config == CONFIG
    adam = double("opt.beta", 0.5, 1)
    return [categorical("opt.name", ["adam", "'1'"]).when("adam", adam), integer("n", 0, 3)]


def faulty(config: DictConfig) -> list[Any]:
    """A search space with something else than a parameter."""
    return [("x", 0, 1)]


def sweeping(config: DictConfig) -> list[Parameter]:
    """A search space with an option that is itself a sweep."""
    return [categorical("x", ["a,b", "c"])]


@pytest.mark.parametrize(
    ("text", "parameter"),
    [
        ("x=interval(1,8)", double("x", 1, 8)),
        ("x=int(interval(1,8))", integer("x", 1, 8)),
        ("x=tag(log,interval(1e-4,1))", double("x", 1e-4, 1, scale="log")),
        ("x=tag(log,int(interval(1,8)))", integer("x", 1, 8, scale="log")),
        ("x=range(1,8)", integer("x", 1, 7)),
        ("x=range(8,1,-1)", integer("x", 2, 8)),
        ("x=range(5)", integer("x", 0, 4)),
        ("x=range(1,10,3)", discrete("x", [1, 4, 7])),
        ("x=range(10,1,-3)", discrete("x", [4, 7, 10])),
        ("x=shuffle(range(1,10,3))", discrete("x", [1, 4, 7])),
        ("x=tag(log,range(8,65,8))", discrete("x", [8, 16, 24, 32, 40, 48, 56, 64], scale="log")),
        ("x=range(0,1,0.25)", discrete("x", [0, 0.25, 0.5, 0.75])),
        ("x=choice(a,b)", categorical("x", ["a", "b"])),
        ("x=a,b,null", categorical("x", ["a", "b", "null"])),
        ("+x=1,true,[1,a]", categorical("+x", ["1", "True", "[1,a]"])),
        ("x@pkg=a,b", categorical("x@pkg", ["a", "b"])),
        ("x=choice(str(1),1,'b c')", categorical("x", ["'1'", "1", "b\\ c"])),
    ],
)
def test_sweeps_are_parameters(text: str, parameter: Parameter) -> None:
    (found,) = space(text).parameters
    assert found == parameter


@pytest.mark.parametrize(
    "value",
    [
        1,
        1.5,
        1e-7,
        True,
        None,
        "a",
        "1",
        "true",
        "null",
        "b c",
        "it's",
        'a"b',
        "a,b",
        "",
        "x=y",
        "${n}",
        [1, "1", [None]],
    ],
    ids=repr,
)
def test_hydra_reads_an_encoded_value_unchanged(value: Any) -> None:
    (override,) = OverridesParser.create().parse_overrides([f"x={encoded(value)}"])
    assert not override.is_sweep_override()
    assert override.value() == value
    assert type(override.value()) is type(value)


def test_a_mapping_is_an_option() -> None:
    swept = space("x=choice({a:1,b:'2'},{a:2})")
    assert list(swept.options["x"].values()) == [{"a": 1, "b": "2"}, {"a": 2}]


def test_every_suggestion_is_read_as_its_value() -> None:
    swept = space("x=interval(0,1e-6)", "n=int(interval(1,8))", "r=range(0.0,4.0)", "s=1,'1',null,[1,2]", "~y")
    search = Optimizer(swept.parameters, [minimize("value")], seed=1)
    for trial in search.ask(20):
        overrides = swept.overrides(trial.parameters)
        assert overrides[0] == "~y"
        read = {o.key_or_group: o.value() for o in OverridesParser.create().parse_overrides(overrides[1:])}
        assert read == swept.values(trial.parameters)
        assert (type(read["x"]), type(read["n"]), type(read["r"])) == (float, int, float)


def test_the_command_line_replaces_params() -> None:
    swept = space("x=3", "++z=a,b", x="interval(0,1)", y="range(1,4)", z="interval(0,1)", k=[1, "2"], e="")
    assert swept.parameters == [integer("y", 1, 3), categorical("++z", ["a", "b"])]
    assert swept.fixed == ["k=[1,'2']", "e=", "x=3"]
    assert swept.overrides({"y": 2, "++z": "a"}) == ["k=[1,'2']", "e=", "x=3", "y=2", "++z=a"]


def test_a_function_returns_further_parameters() -> None:
    swept = space("x=interval(0,1)", "fixed=1", custom=f"{__name__}.conditional")
    assert [parameter.name for parameter in swept.parameters] == ["x", "opt.name", "n"]
    assert swept.overrides({"opt.name": "'1'", "n": 2, "x": 0.5}) == ["fixed=1", "opt.name='1'", "n=2", "x=0.5"]
    assert swept.values({"opt.name": "'1'"}) == {"opt.name": "1"}


@pytest.mark.parametrize(
    ("arguments", "custom", "message"),
    [
        (["x=1"], None, "nothing to search"),
        (["x=interval(3,1)"], None, r"x: interval\(3.0, 1.0\) is not a finite, ascending interval"),
        (["x=tag(log,interval(0,1))"], None, "x: tag 'log' needs positive values, and the lowest is 0.0"),
        (["x=tag(log,range(0,4))"], None, "x: tag 'log' needs positive values, and the lowest is 0"),
        (["x=tag(log,choice(1,2))"], None, "x: tag 'log' has no effect on a choice"),
        (["x=tag(linear,interval(0,1))"], None, "x: unknown tag 'linear'; expected 'log'"),
        (["x=range(4,1)"], None, r"x: x=range\(4,1\) has no values; the stop is excluded"),
        (["x=range(0,100000,2)"], None, "has 50000 values, more than 10000; use interval"),
        (["x=choice(a,a)"], None, "x: the option a is listed twice"),
        (["x=interval(0,1)", "+x=a,b"], None, "'x' is swept twice"),
        (["x=interval(0,1)", "x=1"], None, "'x' has a fixed value and is swept"),
        (["n=range(1,4)"], "conditional", "'n' is swept twice"),
        (["opt.beta=1"], "conditional", "'opt.beta' has a fixed value and is swept"),
        ([], "faulty", r"returned \('x', 0, 1\); expected parameters such as tunesmith.double"),
        ([], "sweeping", "x=a,b: an option is a single value; quote its text"),
    ],
)
def test_what_cannot_be_searched_is_refused(arguments: list[str], custom: str | None, message: str) -> None:
    with pytest.raises(HydraException, match=message):
        space(*arguments, custom=None if custom is None else f"{__name__}.{custom}")
