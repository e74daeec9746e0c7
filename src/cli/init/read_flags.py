"""Writes the flags of a program's argparse parser to a file when the program prints its help.

Python imports this module first, because its folder is the first of PYTHONPATH. Modules that are not installed are
replaced by empty ones if TUNESMITH_INIT_ABSENT is set: the flags are often read without them.
"""

import argparse
import importlib.abc
import importlib.machinery
import json
import os
import sys


class AbsentModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module that nothing else finds."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in getattr(sys, "stdlib_module_names", sys.builtin_module_names):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        from unittest import mock

        return mock.MagicMock(name=spec.name)

    def exec_module(self, module):
        pass


def describe(action):
    kind = getattr(action.type, "__name__", None) if action.type is not None else None
    default = action.default
    if not isinstance(default, (bool, int, float, str)):
        default = None
    return {
        "flags": list(action.option_strings),
        "kind": kind,
        "default": default,
        "choices": None if action.choices is None else [str(choice) for choice in action.choices],
        "takes_one_value": action.nargs is None and type(action).__name__ in ("_StoreAction", "_AppendAction"),
        "required": bool(action.required),
        "help": action.help if isinstance(action.help, str) and action.help != argparse.SUPPRESS else None,
    }


def print_help(self, file=None):
    with open(os.environ["TUNESMITH_INIT_FLAGS"], "w", encoding="utf-8") as flags:
        json.dump([describe(action) for action in self._actions], flags)
    original(self, file)


if "TUNESMITH_INIT_FLAGS" in os.environ:
    original = argparse.ArgumentParser.print_help
    argparse.ArgumentParser.print_help = print_help
    if "TUNESMITH_INIT_ABSENT" in os.environ:
        sys.meta_path.append(AbsentModules())
