"""Metrics of the linear learner, by the published names."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import metrics


def classification(expected: Any, probabilities: Any, classes: Any) -> dict[str, float]:
    """Metrics of class probabilities. Of two classes, the second is positive for auc, precision and recall."""
    predicted = classes[np.argmax(probabilities, axis=1)]
    loss = float(metrics.log_loss(expected, probabilities, labels=classes))
    found = {"accuracy": float(np.mean(predicted == expected)), "loss": loss, "average_loss": loss}
    if len(classes) == 2:
        positive = expected == classes[1]
        if positive.any() and not positive.all():
            found["auc"] = float(metrics.roc_auc_score(positive, probabilities[:, 1]))
        right = predicted == classes[1]
        found["precision"] = float(metrics.precision_score(positive, right, zero_division=0.0))
        found["recall"] = float(metrics.recall_score(positive, right, zero_division=0.0))
    return found


def regression(expected: Any, predicted: Any) -> dict[str, float]:
    """Errors of predictions; ``loss`` and ``average_loss`` are the mean squared error."""
    errors = predicted - expected
    squared = float(np.mean(errors**2))
    return {
        "rmse": squared**0.5,
        "mae": float(np.mean(np.abs(errors))),
        "loss": squared,
        "average_loss": squared,
    }
