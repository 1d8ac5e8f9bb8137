"""Mode collapse: points that attend to each other, and mixtures that are fitted to them.

`curve` has the closed forms, `simulate` iterates attention on clusters of points, `em` fits a mixture.
"""

from ._tools import function_of

__all__ = ["curve", "simulate", "em"]

curve = function_of("collapse.curve")
simulate = function_of("collapse.simulate")
em = function_of("collapse.em")
