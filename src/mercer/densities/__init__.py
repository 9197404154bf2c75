"""Densities p(x | θ): fit, log-likelihood, score vector, information."""
