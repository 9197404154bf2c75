"""Pre-images of the Gaussian kernel: the y whose φ(y) is nearest to Σᵢ γᵢ φ(xᵢ).

Mika, Schölkopf, Smola, Müller, Scholz and Rätsch, Kernel PCA and de-noising in feature
spaces, NIPS 11 (1999), section 3.
"""

from __future__ import annotations

import numpy as np

from mercer.kernels.radial import RBF


def fixed_points(
    kernel: RBF,
    X: np.ndarray,
    weight: np.ndarray,
    start: np.ndarray,
    *,
    tol: float = 1e-8,
    max_iter: int = 200,
) -> np.ndarray:
    """y = Σᵢ γᵢ k(xᵢ, y) xᵢ / Σᵢ γᵢ k(xᵢ, y), iterated; of all y met the best, (m, d).

    ‖φ(y) - Σᵢ γᵢ φ(xᵢ)‖² is least where g(y) = Σᵢ γᵢ k(xᵢ, y) is largest, as k(y, y) is
    1. With negative γ an iteration may fail: the largest g met counts, and that of the
    start counts too.

    Parameters
    ----------
    X : (n, d) points
    weight : (m, n), the γ of each of m pre-images
    start : (m, r) numbers of the points to begin at
    tol : a step of this share of the spread of X is the last
    """
    m, r = start.shape
    X = np.asarray(X, dtype=float)
    gamma = np.repeat(weight, r, axis=0)
    Y = X[start.ravel()]
    best, largest = Y.copy(), np.full(len(Y), -np.inf)
    least_step = tol * np.sqrt(np.var(X, axis=0).sum())
    active = np.arange(len(Y))
    for _ in range(max_iter):
        P = gamma[active] * kernel(Y[active], X)
        g = P.sum(axis=1)
        better = g > largest[active]
        best[active[better]], largest[active[better]] = Y[active[better]], g[better]
        # Where g is 0 to rounding, the quotient is noise.
        sound = g > 1e-12 * np.abs(P).sum(axis=1)
        new = (P[sound] @ X) / g[sound, None]
        steps = np.linalg.norm(new - Y[active[sound]], axis=1)
        active = active[sound]
        Y[active] = new
        active = active[steps > least_step]
        if not len(active):
            break
    chosen = largest.reshape(m, r).argmax(axis=1)
    return best.reshape(m, r, -1)[np.arange(m), chosen]
