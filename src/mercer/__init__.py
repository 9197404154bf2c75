"""Kernel methods, whole: any data, any kernel, any machine.

The public names are loaded when they are first used, so that importing the package
costs next to nothing.
"""

import importlib
import threading

__version__ = "0.1.0"

_NAMES = {
    "mercer.kernels.base": "Kernel Sum Product Scaled Power Constant",
    "mercer.kernels.kinds": (
        "PairKernel FeatureKernel BlockFunction PairFunction FeatureFunction RankOne "
        "Precomputed"
    ),
    "mercer.kernels.algebra": (
        "Exp PolynomialOf Conformal Normalized Pullback On Centered"
    ),
    "mercer.kernels.convolution": "Convolution",
    "mercer.kernels.tree": "Subtree SubsetTree PartialTree TaggedTree",
    "mercer.kernels.vector": "Linear Polynomial Exponential PowerSeries Bilinear",
    "mercer.kernels.dotproduct": "DotProduct Sigmoid",
    "mercer.kernels.coordinate": "Anova ChiSquared Intersection Spline",
    "mercer.kernels.radial": "RBF Laplacian Matern RationalQuadratic Radial",
    "mercer.kernels.window": "RadialWindow ProductWindow",
    "mercer.kernels.explicit": "GaussianSeries",
    "mercer.kernels.string": "Subsequence WeightedDegree EditSimilarity edit_distance",
    "mercer.kernels.substring": "Spectrum Mismatch WeightedSubstrings",
    "mercer.kernels.parse": "parse",
    "mercer.trees": "Tree tag",
    "mercer.kernels.generative": "Fisher Natural Information",
    "mercer.kernels.graph": "WeisfeilerLehman ShortestPath",
    "mercer.kernels.distance": "FromDistance",
    "mercer.kernels.walk": "RandomWalk",
    "mercer.kernels.node": "Diffusion MatrixExponential",
    "mercer.graphs": "Graph",
    "mercer.densities.base": "Density Fit",
    "mercer.densities.normals": "Normals",
    "mercer.densities.categories": "Categories",
    "mercer.densities.gaussian": "Gaussian GaussianMixture",
    "mercer.densities.chain": "MarkovChain",
    "mercer.densities.hmm": "HMM",
    "mercer.gram": "Gram",
    "mercer.expansion": "Expansion",
    "mercer.psd": "check Check repair Repair empirical_features",
    "mercer.theory": (
        "feature_norms feature_distances feature_cosines feature_angles "
        "mercer_expansion mistake_bound MistakeBound"
    ),
    "mercer.solvers.problems": "LinearSystem BoxQP quadratic Solution Certificate",
    "mercer.solvers.penalized": "Penalized",
    "mercer.solvers.bayes": "SparseBayes Posterior",
    "mercer.solvers.evidence": "TippingFaul",
    "mercer.solvers.losses": (
        "ZeroOne PerceptronLoss Hinge SquaredHinge Logistic Squared EpsilonInsensitive "
        "Huber Quantile"
    ),
    "mercer.solvers.linear": "Cholesky ConjugateGradient",
    "mercer.solvers.newton": "Newton",
    "mercer.solvers.perceptron": "Rosenblatt Sides Mistakes",
    "mercer.solvers.lasso": "L1Problem",
    "mercer.solvers.l1": "CoordinateDescent",
    "mercer.solvers.smo": "SMO",
    "mercer.solvers.coordinate": "CoordinateAscent",
    "mercer.machines.perceptron": "Perceptron KernelPerceptron",
    "mercer.machines.regularized": "KernelRidge",
    "mercer.generalisation": "rademacher Bounds Bound",
    "mercer.assessment": "bounds",
    "mercer.machines.sgd": "KernelSGDClassifier KernelSGDRegressor",
    "mercer.machines.logistic": "KernelLogisticRegression",
    "mercer.machines.penalized": (
        "RegularizedMachine KernelQuantileRegression KernelHuberRegression"
    ),
    "mercer.machines.representer": "regularization_path",
    "mercer.machines.kmeans": "KernelKMeans",
    "mercer.machines.neighbors": "KernelKNNClassifier KernelKNNRegressor",
    "mercer.machines.parzen": "ParzenDensity ParzenClassifier",
    "mercer.machines.sparse": "SparseKernelClassifier SparseKernelRegressor",
    "mercer.solvers.components": "Components Eigenpairs",
    "mercer.solvers.eigen": "BlockKrylov Lapack Arpack Covariance",
    "mercer.machines.transform": "KernelPCA",
    "mercer.machines.rvm": "RVC RVR",
    "mercer.machines.svm": "SVC NuSVC SVR NuSVR OneClassSVM SVDD",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = ("plots", "theory", "vectors")

__all__ = ["__version__", *_HOME, *_MODULES]


# Threads that import parts of scikit-learn at the same time can find them half made.
_importing = threading.RLock()


def __getattr__(name: str):
    if name in _HOME:
        with _importing:
            value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"mercer.{name}")
    else:
        raise AttributeError(f"module 'mercer' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
