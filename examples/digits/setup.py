"""The trainer as AI Platform accepted it: a source distribution with its requirements."""

from setuptools import find_packages, setup

setup(
    name="digits-trainer",
    version="0.1",
    packages=find_packages(include=["trainer", "trainer.*"]),
    install_requires=["cloudml-hypertune==0.1.0.dev6", "joblib>=1.3", "scikit-learn>=1.3"],
    description="Trains a neural network on handwritten digits",
)
