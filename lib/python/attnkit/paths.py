"""Basis paths of attention weights and of ReLU networks, and steps in their space."""

from ._tools import function_of

__all__ = ["identify", "values", "reconstruct", "rescale", "start", "step", "check"]

identify = function_of("paths.identify")
values = function_of("paths.values")
reconstruct = function_of("paths.reconstruct")
rescale = function_of("paths.rescale")
start = function_of("paths.start")
step = function_of("paths.step")
check = function_of("paths.check")
