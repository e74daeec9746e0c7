"""Writes reference values of the BBOB functions, computed by the implementation of COCO.

    python -m venv VENV
    VENV/bin/pip install -r benches/reference/requirements.txt
    VENV/bin/python benches/reference/bbob.py

rewrites four files in benchmark/tests/data/, which benchmark/tests/bbob_reference.rs reads:

bbob_points.csv, bbob_mixint_points.csv
    The points: `dimensions,point,origin,coordinates`, the coordinates separated by spaces. With origin `zero` they
    are the point itself; with origin `optimum` they are offsets from the minimizer of each problem.
bbob_reference.csv, bbob_mixint_reference.csv
    One line per problem: `function,dimensions,instance,best_value` and the value at each point of its dimensions, in
    the order of the points: `value_1,value_2,...`. The best value is that of COCO for bbob. For bbob-mixint,
    where COCO does not provide it, it is the value at the minimizer.

Numbers have the digits of Python's `repr`, from which the same double is parsed. The points come from a fixed seed, so
equal versions of the packages write equal files.
"""

import os
import pathlib
import tempfile

import cocoex
import numpy
from cocoex.bare_problem import BareProblem

FUNCTIONS = range(1, 25)
DIMENSIONS = [2, 3, 5, 10, 20, 40]
INSTANCES = [1, 2, 3, 4, 5, 15, 71, 1000]
MIXINT_DIMENSIONS = [5, 10, 20, 40]
MIXINT_INSTANCES = [1, 2, 3, 4, 5, 15, 71]
DATA = pathlib.Path(__file__).resolve().parents[2] / "benchmark" / "tests" / "data"


def main():
    generator = numpy.random.default_rng(20090618)
    points = {d: continuous_points(generator, d) for d in DIMENSIONS}
    write_points("bbob_points.csv", points)
    write_values("bbob_reference.csv", points, bbob_rows(points))
    points = {d: mixed_points(generator, d) for d in MIXINT_DIMENSIONS}
    write_points("bbob_mixint_points.csv", points)
    write_values("bbob_mixint_reference.csv", points, mixint_rows(points))


def continuous_points(generator, dimensions):
    """Returns pairs of origin and coordinates: in the box, slightly outside it, and close to the optimum."""
    inside = [generator.uniform(-5, 5, dimensions) for _ in range(3)]
    outside = [generator.uniform(-6.5, 6.5, dimensions)]
    near = [generator.normal(0, scale, dimensions) for scale in (0.1, 1e-3)]
    points = [("zero", numpy.zeros(dimensions))]
    points += [("zero", point) for point in inside + outside]
    points += [("optimum", point) for point in near]
    return points


def mixed_points(generator, dimensions):
    """Returns the same for mixed spaces: a fifth of the variables each has 2, 4, 8 and 16 values or is continuous."""
    fifth = dimensions // 5
    values = numpy.repeat([2, 4, 8, 16], fifth)
    points = []
    for bound in (5, 5, 5, 6.5):
        integers = generator.integers(0, values)
        points.append(("zero", numpy.concatenate([integers, generator.uniform(-bound, bound, fifth)])))
    points.append(("optimum", numpy.concatenate([numpy.zeros(4 * fifth), generator.normal(0, 0.1, fifth)])))
    return points


def bbob_rows(points):
    for function in FUNCTIONS:
        for dimensions in DIMENSIONS:
            for instance in INSTANCES:
                problem = BareProblem("bbob", function, dimensions, instance)
                minimizer = problem.best_parameter()
                values = evaluate(problem, points[dimensions], minimizer)
                yield function, dimensions, instance, problem.best_value(), values


def mixint_rows(points):
    instances = ",".join(map(str, MIXINT_INSTANCES))
    suite = cocoex.Suite("bbob-mixint", f"instances: {instances}", "")
    for function in FUNCTIONS:
        for dimensions in MIXINT_DIMENSIONS:
            for instance in MIXINT_INSTANCES:
                problem = suite.get_problem_by_function_dimension_instance(function, dimensions, instance)
                minimizer = mixint_minimizer(problem)
                values = evaluate(problem, points[dimensions], minimizer)
                yield function, dimensions, instance, problem(minimizer), values


def mixint_minimizer(problem):
    """Returns the minimizer, which the package only writes to a file in the working folder."""
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        try:
            problem._best_parameter("print")
            text = pathlib.Path("._bbob_problem_best_parameter.txt").read_text()
        finally:
            os.chdir(before)
    return numpy.array([float(word) for word in text.split()])


def evaluate(problem, points, minimizer):
    return [problem(point if origin == "zero" else minimizer + point) for origin, point in points]


def write_points(name, points):
    with (DATA / name).open("w", newline="\n") as file:
        file.write("dimensions,point,origin,coordinates\n")
        for dimensions, of_dimensions in points.items():
            for number, (origin, point) in enumerate(of_dimensions, start=1):
                coordinates = " ".join(repr(float(x)) for x in point)
                file.write(f"{dimensions},{number},{origin},{coordinates}\n")


def write_values(name, points, rows):
    count = len(next(iter(points.values())))
    with (DATA / name).open("w", newline="\n") as file:
        columns = ",".join(f"value_{number}" for number in range(1, count + 1))
        file.write(f"function,dimensions,instance,best_value,{columns}\n")
        for function, dimensions, instance, best_value, values in rows:
            numbers = ",".join(repr(float(value)) for value in [best_value, *values])
            file.write(f"{function},{dimensions},{instance},{numbers}\n")


if __name__ == "__main__":
    main()
