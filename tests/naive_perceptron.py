"""The slow twins of the perceptrons: the textbook's loop, one point after another.

Freund and Schapire, Machine Learning 37 (1999), figure 1 and section 3.
"""

import numpy as np


def kernel_mistakes(K, sign, orders, start=None):
    """(point, column, time) of every mistake; a pass without one is the last.

    Parameters
    ----------
    K : (n, n) array
    sign : (n, q) array of ±1
    orders : for each pass the points in their order
    start : (n, q) array of scores before the first pass
    """
    coef = np.zeros(sign.shape)
    found, time = [], 0
    for order in orders:
        before = len(found)
        for i in order:
            f = K[i] @ coef + (0 if start is None else start[i])
            for c in range(sign.shape[1]):
                if sign[i, c] * f[c] <= 0:
                    coef[i, c] += sign[i, c]
                    found.append((int(i), c, time))
            time += 1
        if len(found) == before:
            break
    return found


def primal(X, sign, orders, eta=1.0):
    """w after each point, (T + 1, d), and the mistakes, for one function."""
    w = np.zeros(X.shape[1])
    path, found = [w], []
    for order in orders:
        before = len(found)
        for i in order:
            if sign[i] * (w @ X[i]) <= 0:
                w = w + eta * sign[i] * X[i]
                found.append(int(i))
            path.append(w)
        if len(found) == before:
            break
    return np.array(path), found


def vote(path, X):
    """The votes of all w that served, each as often as there are points it lasted for.

    What time t changed serves from then on; the w of before the first point does not.
    """
    return np.mean([np.sign(X @ w) for w in path[1:]], axis=0)
