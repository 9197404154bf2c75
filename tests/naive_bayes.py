"""Sparse Bayesian expansions by their definitions: n × n covariances, no shortcuts."""

import numpy as np
from scipy.optimize import minimize
from scipy.stats import multivariate_normal


def columns(K, bias=True):
    """Φ: a column for each point, and one of ones."""
    return np.column_stack([K, np.ones(len(K))]) if bias else np.array(K)


def evidence(Phi, t, alpha, beta):
    """log N(t | 0, I/β + Φ A⁻¹ Φᵀ); columns with α = ∞ are not there."""
    C = np.eye(len(t)) / beta + (Phi / alpha) @ Phi.T
    return multivariate_normal(np.zeros(len(t)), C).logpdf(t)


def posterior(Phi, t, alpha, beta):
    """Mean and covariance of w: Bayesian ridge regression, by the inverse."""
    covariance = np.linalg.inv(np.diag(alpha) + beta * Phi.T @ Phi)
    return beta * covariance @ Phi.T @ t, covariance


def log_joint(w, Phi, sign, alpha):
    """log p(sign, w) for classes."""
    prior = multivariate_normal(np.zeros(len(w)), np.diag(1 / alpha)).logpdf(w)
    return prior - np.sum(np.log1p(np.exp(-sign * (Phi @ w))))


def laplace(Phi, sign, alpha):
    """The mode of w, the covariance there, and the approximate log p(sign)."""
    start = np.zeros(Phi.shape[1])
    found = minimize(
        lambda w: -log_joint(w, Phi, sign, alpha), start, tol=1e-12, method="BFGS"
    )
    mode = found.x
    p = 1 / (1 + np.exp(-Phi @ mode))
    precision = np.diag(alpha) + Phi.T @ np.diag(p * (1 - p)) @ Phi
    value = log_joint(mode, Phi, sign, alpha) + len(mode) / 2 * np.log(2 * np.pi)
    covariance = np.linalg.inv(precision)
    return mode, covariance, value + np.linalg.slogdet(covariance)[1] / 2


def highest(Phi, t, starts, bounds=(-6, 12)):
    """The largest evidence that a general optimiser finds, over all log α and log β."""
    best = -np.inf
    for start in starts:
        found = minimize(
            lambda x: -evidence(Phi, t, np.exp(x[:-1]), np.exp(x[-1])),
            np.clip(start, *bounds),
            bounds=[bounds] * len(start),
            method="L-BFGS-B",
            options={"maxfun": 20_000},
        )
        best = max(best, -found.fun)
    return best
