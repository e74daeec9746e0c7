"""Tunesmith's search and stopping rules, as a package of OptunaHub."""

from .sampler import TunesmithPruner, TunesmithSampler

__all__ = ["TunesmithPruner", "TunesmithSampler"]
