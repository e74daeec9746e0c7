"""The models, their data and their search spaces.

Each training function trains a model at one point. It returns the objective, which is minimised, and the objective at
each step of models trained in steps. Both are means over the folds of a cross-validation. Folds and seeds of the models
are equal for all points.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Callable

import numpy as np
from scipy.stats import rankdata
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from design import Double, Integer, Levels

LOG = "UNIT_LOG_SCALE"
REVERSE_LOG = "UNIT_REVERSE_LOG_SCALE"
EPOCHS = 10
BOOSTING_ROUNDS = 40
BOOSTING_STEPS = tuple(range(4, BOOSTING_ROUNDS + 1, 4))


@cache
def folds(name, samples, count):
    """Returns `count` folds of `samples` rows: features and targets for training, features and targets for validation."""
    features, target = getattr(datasets, f"load_{name}")(return_X_y=True)
    stratify = None if name == "diabetes" else target
    if samples < len(target):
        features, _, target, _ = train_test_split(
            features, target, train_size=samples, random_state=0, stratify=stratify
        )
    splitter = KFold if stratify is None else StratifiedKFold
    return [
        (features[train], target[train], features[held_out], target[held_out])
        for train, held_out in splitter(count, shuffle=True, random_state=0).split(features, target)
    ]


@cache
def standardized(name, samples, count):
    """Returns `folds`, each scaled by the mean and the standard deviation of its training features."""
    scaled = []
    for train, train_target, held_out, held_out_target in folds(name, samples, count):
        scaler = StandardScaler().fit(train)
        scaled.append((scaler.transform(train), train_target, scaler.transform(held_out), held_out_target))
    return scaled


def log_loss(probabilities, target):
    """Returns the mean of -log of the predicted probability of the true class, clipped at 1e-4."""
    return -np.mean(np.log(np.clip(probabilities[np.arange(len(target)), target], 1e-4, 1.0)))


def ranking_loss(scores, target):
    """Returns the mean of the error rate and of one minus the area under the curve of each class against the rest.

    For models with scores instead of probabilities; the second term distinguishes models with equal errors.
    """
    if scores.ndim == 1:
        scores = np.stack([-scores, scores], axis=1)
    if not np.isfinite(scores).all():
        return np.nan
    ranks = rankdata(scores, axis=0)
    areas = []
    for label in range(scores.shape[1]):
        positive = target == label
        count = positive.sum()
        surplus = ranks[positive, label].sum() - count * (count + 1) / 2
        areas.append(surplus / (count * (len(target) - count)))
    return (np.mean(scores.argmax(axis=1) != target) + 1 - np.mean(areas)) / 2


def root_mean_squared_error(predictions, target):
    return np.sqrt(np.mean((predictions - target) ** 2))


def averaged(curves):
    """Averages curves, each a dict from step to value; returns the last value of the mean and the whole mean."""
    curve = {step: np.mean([curve[step] for curve in curves]) for step in curves[0]}
    return curve[max(curve)], curve


def support_vectors_digits(point):
    losses = []
    source = standardized if point["scaling"] == "standard" else folds
    for train, train_target, held_out, held_out_target in source("digits", 900, 2):
        model = SVC(
            kernel=point["kernel"],
            C=point["c"],
            gamma=point["gamma"],
            degree=point["degree"],
            coef0=point["coef0"],
            decision_function_shape="ovr",
            max_iter=20000,
        )
        model.fit(train, train_target)
        losses.append(ranking_loss(model.decision_function(held_out), held_out_target))
    return np.mean(losses), {}


def neural_network_digits(point):
    curves = []
    for train, train_target, held_out, held_out_target in standardized("digits", 600, 2):
        model = MLPClassifier(
            hidden_layer_sizes=(point["hidden_units"],) * point["layers"],
            activation=point["activation"],
            solver=point["solver"],
            alpha=point["alpha"],
            batch_size=point["batch_size"],
            learning_rate_init=point["learning_rate"],
            momentum=point["momentum"],
            random_state=0,
        )
        curve = {}
        for epoch in range(1, EPOCHS + 1):
            model.partial_fit(train, train_target, classes=np.arange(10))
            curve[epoch] = log_loss(model.predict_proba(held_out), held_out_target)
        curves.append(curve)
    return averaged(curves)


def random_forest_wine(point):
    losses = []
    for train, train_target, held_out, held_out_target in folds("wine", 178, 2):
        model = RandomForestClassifier(**point | {"bootstrap": point["bootstrap"] == "on"}, random_state=0)
        model.fit(train, train_target)
        losses.append(log_loss(model.predict_proba(held_out), held_out_target))
    return np.mean(losses), {}


def extra_trees_diabetes(point):
    losses = []
    for train, train_target, held_out, held_out_target in folds("diabetes", 442, 2):
        model = ExtraTreesRegressor(**point | {"bootstrap": point["bootstrap"] == "on"}, random_state=0)
        model.fit(train, train_target)
        losses.append(root_mean_squared_error(model.predict(held_out), held_out_target))
    return np.mean(losses), {}


def gradient_boosting_diabetes(point):
    curves = []
    for train, train_target, held_out, held_out_target in folds("diabetes", 442, 2):
        model = GradientBoostingRegressor(**point, n_estimators=BOOSTING_ROUNDS, random_state=0)
        model.fit(train, train_target)
        stages = enumerate(model.staged_predict(held_out), 1)
        curve = {trees: root_mean_squared_error(stage, held_out_target) for trees, stage in stages}
        curves.append({trees: curve[trees] for trees in BOOSTING_STEPS})
    return averaged(curves)


def histogram_boosting_breast_cancer(point):
    curves = []
    for train, train_target, held_out, held_out_target in folds("breast_cancer", 569, 2):
        model = HistGradientBoostingClassifier(
            **point, max_iter=BOOSTING_ROUNDS, early_stopping=False, random_state=0
        )
        model.fit(train, train_target)
        stages = enumerate(model.staged_predict_proba(held_out), 1)
        curve = {trees: log_loss(stage, held_out_target) for trees, stage in stages}
        curves.append({trees: curve[trees] for trees in BOOSTING_STEPS})
    return averaged(curves)


def linear_descent_digits(point):
    curves = []
    for train, train_target, held_out, held_out_target in standardized("digits", 600, 2):
        model = SGDClassifier(**point, penalty="elasticnet", random_state=0)
        curve = {}
        for epoch in range(1, EPOCHS + 1):
            model.partial_fit(train, train_target, classes=np.arange(10))
            curve[epoch] = ranking_loss(model.decision_function(held_out), held_out_target)
        curves.append(curve)
    return averaged(curves)


def nearest_neighbours_breast_cancer(point):
    losses = []
    for train, train_target, held_out, held_out_target in folds("breast_cancer", 569, 3):
        steps = {"none": [], "standard": [StandardScaler()], "min_max": [MinMaxScaler()]}[point["scaling"]]
        model = make_pipeline(
            *steps,
            PCA(point["components"], whiten=point["whiten"] == "on", random_state=0),
            KNeighborsClassifier(point["neighbours"], weights=point["weights"], p=point["power"]),
        )
        model.fit(train, train_target)
        losses.append(ranking_loss(model.predict_proba(held_out), held_out_target))
    return np.mean(losses), {}


def adaptive_boosting_digits(point):
    losses = []
    for train, train_target, held_out, held_out_target in folds("digits", 400, 2):
        tree = DecisionTreeClassifier(
            max_depth=point["max_depth"],
            min_samples_leaf=point["min_samples_leaf"],
            max_features=point["max_features"],
            criterion=point["criterion"],
            splitter=point["splitter"],
        )
        model = AdaBoostClassifier(
            tree, n_estimators=point["n_estimators"], learning_rate=point["learning_rate"], random_state=0
        )
        model.fit(train, train_target)
        losses.append(ranking_loss(model.decision_function(held_out), held_out_target))
    return np.mean(losses), {}


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    train: Callable
    space: tuple
    steps: tuple = field(default=())


SWITCH = ("off", "on")
EPOCH_STEPS = tuple(range(1, EPOCHS + 1))

TABLES = (
    Table(
        "support-vectors-digits",
        "A support vector machine on 900 digits; mean of the error rate and one minus the area under the curve.",
        support_vectors_digits,
        (
            Levels("kernel", ("poly", "rbf", "sigmoid")),
            Double("c", 0.01, 1000, LOG),
            Double("gamma", 1e-5, 1, LOG),
            Integer("degree", 1, 6),
            Double("coef0", 0, 2),
            Levels("scaling", ("none", "standard")),
        ),
    ),
    Table(
        "neural-network-digits",
        "A neural network on 600 digits after ten epochs; logarithmic loss.",
        neural_network_digits,
        (
            Double("learning_rate", 1e-4, 0.3, LOG),
            Double("alpha", 1e-6, 1, LOG),
            Double("momentum", 0.5, 0.99, REVERSE_LOG),
            Integer("hidden_units", 4, 128, LOG),
            Integer("layers", 1, 3),
            Levels("batch_size", (16, 32, 64, 128)),
            Levels("activation", ("identity", "logistic", "relu", "tanh")),
            Levels("solver", ("adam", "sgd")),
        ),
        EPOCH_STEPS,
    ),
    Table(
        "random-forest-wine",
        "A random forest on the wine data; logarithmic loss.",
        random_forest_wine,
        (
            Integer("n_estimators", 4, 64, LOG),
            Integer("max_depth", 1, 12),
            Integer("min_samples_leaf", 1, 32, LOG),
            Double("max_features", 0.05, 1, LOG),
            Levels("criterion", ("entropy", "gini")),
            Levels("bootstrap", SWITCH),
        ),
    ),
    Table(
        "extra-trees-diabetes",
        "Extremely randomised trees on the diabetes data; root mean squared error.",
        extra_trees_diabetes,
        (
            Integer("n_estimators", 4, 64, LOG),
            Integer("max_depth", 1, 16),
            Integer("min_samples_leaf", 1, 40, LOG),
            Double("max_features", 0.1, 1),
            Double("ccp_alpha", 0.01, 1000, LOG),
            Levels("bootstrap", SWITCH),
        ),
    ),
    Table(
        "gradient-boosting-diabetes",
        "Gradient boosting on the diabetes data with 40 trees; root mean squared error.",
        gradient_boosting_diabetes,
        (
            Double("learning_rate", 0.005, 1, LOG),
            Integer("max_depth", 1, 6),
            Integer("min_samples_leaf", 3, 60, LOG),
            Double("subsample", 0.2, 1),
            Double("max_features", 0.1, 1),
            Levels("loss", ("absolute_error", "huber", "squared_error")),
            Double("alpha", 0.5, 0.99, REVERSE_LOG),
        ),
        BOOSTING_STEPS,
    ),
    Table(
        "histogram-boosting-breast-cancer",
        "Gradient boosting over histograms on the breast cancer data with 40 trees; logarithmic loss.",
        histogram_boosting_breast_cancer,
        (
            Double("learning_rate", 0.005, 1, LOG),
            Integer("max_leaf_nodes", 2, 32, LOG),
            Integer("min_samples_leaf", 1, 60),
            Double("l2_regularization", 1e-4, 100, LOG),
            Double("max_features", 0.1, 1),
            Levels("max_bins", (4, 8, 16, 32, 64)),
        ),
        BOOSTING_STEPS,
    ),
    Table(
        "linear-descent-digits",
        "A linear model on 600 digits after ten epochs of stochastic gradient descent; mean of the error rate and one"
        " minus the area under the curve.",
        linear_descent_digits,
        (
            Levels("loss", ("hinge", "log_loss", "modified_huber")),
            Levels("learning_rate", ("constant", "invscaling")),
            Double("alpha", 1e-7, 1, LOG),
            Double("l1_ratio", 0, 1),
            Double("eta0", 1e-4, 1, LOG),
        ),
        EPOCH_STEPS,
    ),
    Table(
        "nearest-neighbours-breast-cancer",
        "Nearest neighbours on the breast cancer data; mean of the error rate and one minus the area under the curve.",
        nearest_neighbours_breast_cancer,
        (
            Integer("neighbours", 1, 60, LOG),
            Double("power", 1, 5),
            Integer("components", 1, 30),
            Levels("scaling", ("min_max", "none", "standard")),
            Levels("weights", ("distance", "uniform")),
            Levels("whiten", SWITCH),
        ),
    ),
    Table(
        "adaptive-boosting-digits",
        "Adaptive boosting of trees on 400 digits; mean of the error rate and one minus the area under the curve.",
        adaptive_boosting_digits,
        (
            Integer("n_estimators", 4, 48, LOG),
            Double("learning_rate", 0.01, 3, LOG),
            Integer("max_depth", 1, 8),
            Integer("min_samples_leaf", 1, 20),
            Double("max_features", 0.1, 1),
            Levels("criterion", ("entropy", "gini")),
            Levels("splitter", ("best", "random")),
        ),
    ),
)
