"""Sweeper of Hydra that searches with Tunesmith."""

__version__ = "0.1.0"
