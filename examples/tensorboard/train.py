"""Fits a polynomial to the diabetes data of scikit-learn by gradient descent, and logs to TensorBoard.

It contains no code for hyperparameter tuning: the metric is what TensorBoard shows.
"""

import argparse

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import SGDRegressor
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from tensorboardX import SummaryWriter

EPOCHS = 40


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job-dir", required=True, help="folder for the event files")
    parser.add_argument("--learning_rate", type=float, default=0.01)
    parser.add_argument("--penalty", type=float, default=0.01)
    parser.add_argument("--degree", type=int, default=1)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    features, target = load_diabetes(return_X_y=True)
    target = (target - target.mean()) / target.std()
    train_features, validation_features, train_target, validation_target = train_test_split(
        features, target, test_size=0.25, random_state=0
    )
    expand = make_pipeline(
        StandardScaler(), PolynomialFeatures(arguments.degree, include_bias=False), StandardScaler()
    )
    train_features = expand.fit_transform(train_features)
    validation_features = expand.transform(validation_features)
    model = SGDRegressor(
        loss="huber",
        alpha=arguments.penalty,
        # The step of one feature, so that the range suits every degree.
        eta0=arguments.learning_rate / train_features.shape[1],
        learning_rate="constant",
        random_state=0,
    )
    with SummaryWriter(arguments.job_dir) as writer:
        for epoch in range(1, EPOCHS + 1):
            model.partial_fit(train_features, train_target)
            for name, inputs, wanted in [
                ("train", train_features, train_target),
                ("validation", validation_features, validation_target),
            ]:
                error = np.mean((model.predict(inputs) - wanted) ** 2)
                writer.add_scalar(f"{name}/mean_squared_error", error, epoch)


if __name__ == "__main__":
    main()
