"""Trainers of the built-in algorithms: ``python -m tunesmith_builtin.boosted_trees`` and ``.linear_learner``.

Each reads a CSV file, trains one model, and writes it below ``--job-dir``. Metrics are reported through the metric
file of the service.
"""
