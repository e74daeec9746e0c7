"""Search spaces in the terms of Optuna, for the libraries that have its interface. Imports none of them.

The tables in the docstrings of the adapters list the representations.
"""


def distribution(distributions, parameter):
    """Returns the distribution of `parameter`, of the module `distributions` of a library."""
    if parameter.kind == "DOUBLE":
        return distributions.FloatDistribution(parameter.minimum, parameter.maximum, log=parameter.is_log)
    if parameter.kind == "INTEGER":
        return distributions.IntDistribution(parameter.minimum, parameter.maximum, log=parameter.is_log)
    if parameter.kind == "DISCRETE":
        return distributions.IntDistribution(0, len(parameter.values) - 1)
    return distributions.CategoricalDistribution(list(parameter.values))


def define_by_run(study, running):
    """Returns a point of `study`; its active parameters are requested from the trial `running` one after the other."""
    point = {}
    for parameter in study.parameters:
        if not parameter.is_active(point):
            continue
        if parameter.is_fixed:
            point[parameter.name] = parameter.fixed_value
        else:
            # Conditions compare parents with the exact values of the problem; a library may round the last digit.
            point[parameter.name] = parameter.legal(from_optuna(parameter, suggest_value(running, parameter)))
    return point


def suggest_value(running, parameter):
    """Requests the value of `parameter` from the trial `running`, in the representation of the library."""
    if parameter.kind == "DOUBLE":
        return running.suggest_float(parameter.name, parameter.minimum, parameter.maximum, log=parameter.is_log)
    if parameter.kind == "INTEGER":
        return running.suggest_int(parameter.name, parameter.minimum, parameter.maximum, log=parameter.is_log)
    if parameter.kind == "DISCRETE":
        return running.suggest_int(parameter.name, 0, len(parameter.values) - 1)
    return running.suggest_categorical(parameter.name, list(parameter.values))


def to_optuna(parameter, value):
    """Converts `value` to the representation of the library."""
    return parameter.index(value) if parameter.kind == "DISCRETE" else parameter.mirror(value)


def from_optuna(parameter, value):
    """Returns the inverse of `to_optuna`."""
    return parameter.values[value] if parameter.kind == "DISCRETE" else parameter.mirror(value)
