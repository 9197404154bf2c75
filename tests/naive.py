"""The definitions, in loops over plain numbers: too slow to be wrong.

Each kernel is a function of two points; `gram` makes its matrix. Products that leave
the range of floating-point numbers give inf, as in IEEE arithmetic.
"""

import math
from fractions import Fraction
from itertools import combinations, product

INF = math.inf


def gram(k, X, Y=None):
    """[[k(x, y) for y in Y] for x in X], on lists of lists of floats."""
    return [[k(x, y) for y in (X if Y is None else Y)] for x in X]


def exp(x):
    try:
        return math.exp(x)
    except OverflowError:
        return INF


def power(x, p):
    result = 1.0
    for _ in range(p):
        result *= x
    return result


def inner(x, y):
    return sum((a * b for a, b in zip(x, y, strict=True)), 0.0)


def square_distance(x, y):
    return sum(((a - b) * (a - b) for a, b in zip(x, y, strict=True)), 0.0)


def absolute_distance(x, y):
    return sum((abs(a - b) for a, b in zip(x, y, strict=True)), 0.0)


# Functions of the inner product


def linear():
    return inner


def polynomial(degree, scale=1.0, offset=1.0):
    return lambda x, y: power(scale * inner(x, y) + offset, degree)


def exponential(scale=1.0):
    return lambda x, y: exp(inner(x, y) / scale)


def power_series(coefficients):
    return lambda x, y: sum(
        a * power(inner(x, y), n) for n, a in enumerate(coefficients) if a
    )


def dot_product(f):
    return lambda x, y: f(inner(x, y))


def sigmoid(gamma, offset=0.0):
    return lambda x, y: math.tanh(gamma * inner(x, y) + offset)


def bilinear(A):
    def k(x, y):
        d = len(x)
        return sum(x[i] * A[i][j] * y[j] for i in range(d) for j in range(d))

    return k


# Functions of a distance


def rbf(gamma):
    return lambda x, y: exp(-gamma * square_distance(x, y))


def laplacian(gamma):
    return lambda x, y: exp(-gamma * absolute_distance(x, y))


def matern_half_integer(p, length=1.0):
    """Matérn with ν = p + ½, by the finite sum for Bessel functions of such order."""

    def k(x, y):
        z = math.sqrt((2 * p + 1) * square_distance(x, y)) / length
        if z > 1e4:
            return 0.0  # below the smallest number, while powers of z overflow
        terms = (
            math.factorial(p + i)
            / (math.factorial(i) * math.factorial(p - i))
            * (2 * z) ** (p - i)
            for i in range(p + 1)
        )
        return exp(-z) * math.factorial(p) / math.factorial(2 * p) * sum(terms)

    return k


def rational_quadratic(alpha, length=1.0):
    return lambda x, y: (
        (1 + square_distance(x, y) / (2 * alpha * length * length)) ** -alpha
    )


def radial(f, metric):
    return lambda x, y: f(metric(x, y))


def gaussian_series(gamma, degree):
    def k(x, y):
        s = 2 * gamma * inner(x, y)
        partial = sum(power(s, j) / math.factorial(j) for j in range(degree + 1))
        return exp(-gamma * inner(x, x)) * partial * exp(-gamma * inner(y, y))

    return k


# Coordinate by coordinate


def anova(order, base=lambda a, b: a * b, cumulative=False):
    """Every choice of coordinates; base is a kernel of two numbers, or a list."""

    def k(x, y):
        kernels = base if isinstance(base, list) else [base] * len(x)
        z = [k(a, b) for k, a, b in zip(kernels, x, y, strict=True)]
        orders = range(1, order + 1) if cumulative else [order]
        # Rounded once: large products may cancel and leave small ones.
        return math.fsum(
            math.prod(chosen) for r in orders for chosen in combinations(z, r)
        )

    return k


def chi_squared(gamma=1.0):
    def term(a, b):
        return 0.0 if a == b == 0 else (a - b) * (a - b) / (a + b)

    return lambda x, y: exp(-gamma * sum(map(term, x, y)))


def intersection():
    return lambda x, y: float(sum(map(min, x, y)))


def spline():
    """In fractions: the differences cancel where x and y are large."""

    def factor(x, y):
        x, y, m = Fraction(x), Fraction(y), Fraction(min(x, y))
        return 1 + x * y + x * y * m - (x + y) * m**2 / 2 + m**3 / 3

    def k(x, y):
        exact = math.prod(map(factor, x, y))
        try:
            return float(exact)
        except OverflowError:
            return INF if exact > 0 else -INF

    return k


# Closure rules, on any k


def normalized(k):
    def cosine(x, y):
        if k(x, x) == 0 or k(y, y) == 0:
            return float(k(x, x) == k(y, y))
        return k(x, y) / math.sqrt(k(x, x) * k(y, y))

    return cosine


def centered(k, reference):
    """⟨φ(x) - μ, φ(y) - μ⟩ with μ the mean over the reference, multiplied out."""
    n = len(reference)

    def product(x, y):
        left = sum(k(x, r) for r in reference) / n
        right = sum(k(r, y) for r in reference) / n
        both = sum(k(r, s) for r in reference for s in reference) / n**2
        return k(x, y) - left - right + both

    return product


# Approximations


def solved(A, b):
    """x with A x = b by elimination in rational numbers."""
    n = len(A)
    rows = [
        [Fraction(a) for a in row] + [Fraction(c)] for row, c in zip(A, b, strict=True)
    ]
    for i in range(n):
        pivot = next(r for r in range(i, n) if rows[r][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [a / rows[i][i] for a in rows[i]]
        for r in range(n):
            if r != i:
                rows[r] = [
                    a - rows[r][i] * p for a, p in zip(rows[r], rows[i], strict=True)
                ]
    return [float(row[-1]) for row in rows]


def nystrom(k, landmarks):
    """k(x, L) K_LL⁻¹ k(L, y)."""

    def approximate(x, y):
        weights = solved(gram(k, landmarks), [k(l, y) for l in landmarks])
        return sum(w * k(x, l) for w, l in zip(weights, landmarks, strict=True))

    return approximate


def random_fourier(frequencies):
    """The mean of cos⟨ω, x - y⟩ over the frequencies ω."""
    return lambda x, y: (
        sum(
            math.cos(inner(w, [a - b for a, b in zip(x, y, strict=True)]))
            for w in frequencies
        )
        / len(frequencies)
    )


def tensor_sketch(x, columns, signs, size):
    """Every product of coordinates, one for each row of hashes, into its column."""
    sketch = [0.0] * size
    for places in product(range(len(x)), repeat=len(columns)):
        where, value = 0, 1.0
        for column, sign, i in zip(columns, signs, places, strict=True):
            where += column[i]
            value *= sign[i] * x[i]
        sketch[where % size] += value
    return sketch
