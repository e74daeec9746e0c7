"""Uses the names of existing resources, so that not every request is answered with "not found".

They replace most of the names that schemathesis generates for requests that should be accepted. Requests that should be
refused stay as they are.
"""

import ast
import gc
import itertools
import threading

import schemathesis

_parse = ast.parse
_parsing = threading.RLock()


def _parse_undisturbed(*arguments, **options):
    """Parses without a collection of garbage or another thread in between.

    Python up to 3.11 and early releases of 3.12 count the depth of a tree wrongly otherwise, and end in a SystemError
    ("AST constructor recursion depth mismatch", python/cpython issue 106905). Hypothesis parses the source of every
    lambda that it filters by.
    """
    with _parsing:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return _parse(*arguments, **options)
        finally:
            if was_enabled:
                gc.enable()


ast.parse = _parse_undisturbed

NAMES = {
    "project": itertools.cycle(["p"]),
    "location": itertools.cycle(["l"]),
    "study": itertools.cycle(["example", "finite", None]),
    "job": itertools.cycle(["tuning", "plain", None]),
    "trial": itertools.cycle(["1", "2", "3", "4", None]),
}

STUDY_CONFIG = {
    "metrics": [{"metric": "loss", "goal": "MINIMIZE"}],
    "parameters": [
        {"parameter": "layers", "type": "INTEGER", "integerValueSpec": {"minValue": "1", "maxValue": "6"}},
    ],
}


def are_accepted(case, place):
    """Whether the parts of the request in "path", "body" and so on were made to be accepted."""
    parts = {location.value: part for location, part in case.meta.components.items()} if case.meta else {}
    return place in parts and parts[place].mode == schemathesis.GenerationMode.POSITIVE


def with_known_metrics(value):
    if isinstance(value, list):
        for item in value:
            with_known_metrics(item)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key in ("metric", "parameter") and isinstance(inner, str):
                value[key] = {"metric": "loss", "parameter": "layers"}[key]
            elif key not in ("studyConfig", "trainingInput"):
                with_known_metrics(inner)


def of_sequence(case):
    """Whether the request follows others, whose answers name what is there."""
    return case.meta is not None and case.meta.phase.name.value == "stateful"


@schemathesis.hook
def before_call(ctx, case, kwargs):
    # Nothing is removed that the requests after it need.
    if are_accepted(case, "path") and case.method != "DELETE" and not of_sequence(case):
        for name in set(NAMES).intersection(case.path_parameters):
            case.path_parameters[name] = next(NAMES[name]) or case.path_parameters[name]
    if are_accepted(case, "body"):
        with_known_metrics(case.body)
        if of_sequence(case) and case.method == "POST" and case.path.endswith("/studies"):
            case.body = {"studyConfig": STUDY_CONFIG}
