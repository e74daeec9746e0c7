"""Trains a neural network on the handwritten digits that come with scikit-learn, and reports its accuracy per epoch."""

import argparse
import os

import hypertune
import joblib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job-dir", required=True, help="folder for the model")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--hidden-units", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--activation", choices=["identity", "logistic", "relu", "tanh"], default="relu")
    return parser.parse_args()


def load_data():
    """Returns training images, validation images, training labels, validation labels; a quarter is for validation."""
    digits = load_digits()
    # Grey values are 0 to 16.
    return train_test_split(digits.data / 16, digits.target, test_size=0.25, stratify=digits.target, random_state=0)


def main():
    arguments = parse_arguments()
    train_images, validation_images, train_labels, validation_labels = load_data()
    network = MLPClassifier(
        hidden_layer_sizes=(arguments.hidden_units,),
        activation=arguments.activation,
        solver="sgd",
        learning_rate_init=arguments.learning_rate,
        momentum=arguments.momentum,
        batch_size=arguments.batch_size,
        random_state=arguments.seed,
    )
    reporter = hypertune.HyperTune()
    generator = np.random.default_rng(arguments.seed)
    for epoch in range(1, arguments.epochs + 1):
        order = generator.permutation(len(train_images))
        network.partial_fit(train_images[order], train_labels[order], classes=np.arange(10))
        accuracy = network.score(validation_images, validation_labels)
        print(f"epoch {epoch}: validation accuracy {accuracy:.4f}", flush=True)
        reporter.report_hyperparameter_tuning_metric(
            hyperparameter_metric_tag="accuracy", metric_value=accuracy, global_step=epoch
        )

    os.makedirs(arguments.job_dir, exist_ok=True)
    joblib.dump(network, os.path.join(arguments.job_dir, "model.joblib"))


if __name__ == "__main__":
    main()
