"""Kernel methods, whole: any data, any kernel, any machine.

Here are the kernels, the machines and what most people need besides; the rest has its
place: `mercer.solvers`, `mercer.losses`, `mercer.densities`, `mercer.theory`,
`mercer.data`, `mercer.io`, `mercer.planning`. Names are loaded when they are first
used, so that importing the package costs next to nothing.
"""

from mercer._names import loaded_on_use

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = loaded_on_use(
    __name__,
    {
        "mercer.kernels.base": "Kernel",
        "mercer.kernels.operators": "Sum Product Scaled Power Constant",
        "mercer.kernels.cache": "gram_cache set_gram_cache",
        "mercer.kernels.ways": (
            "PairKernel FeatureKernel BlockFunction PairFunction FeatureFunction "
            "RankOne Precomputed"
        ),
        "mercer.kernels.algebra": (
            "Exp PolynomialOf Conformal Normalized Pullback On Centered"
        ),
        "mercer.kernels.vector": "Linear Polynomial Exponential PowerSeries Bilinear",
        "mercer.kernels.dotproduct": "DotProduct Sigmoid",
        "mercer.kernels.coordinate": "Anova ChiSquared Intersection Spline",
        "mercer.kernels.radial": "RBF Laplacian Matern RationalQuadratic Radial",
        "mercer.kernels.window": "RadialWindow ProductWindow",
        "mercer.kernels.explicit": "GaussianSeries",
        "mercer.kernels.string": "Subsequence WeightedDegree EditSimilarity",
        "mercer.kernels.substring": "Spectrum Mismatch WeightedSubstrings",
        "mercer.kernels.tree": "Subtree SubsetTree PartialTree TaggedTree",
        "mercer.kernels.convolution": "Convolution",
        "mercer.kernels.multiple": "MultipleKernel",
        "mercer.kernels.graph": "WeisfeilerLehman ShortestPath",
        "mercer.kernels.walk": "RandomWalk",
        "mercer.kernels.node": "Diffusion MatrixExponential",
        "mercer.kernels.generative": "Fisher Natural",
        "mercer.kernels.distance": "FromDistance",
        "mercer.kernels.nystrom": "Nystrom",
        "mercer.kernels.random_features": "RandomFourier PolynomialSketch",
        "mercer.kernels.parse": "parse",
        "mercer.data.trees": "Tree",
        "mercer.data.graphs": "Graph",
        "mercer.gram": "Gram",
        "mercer.expansion": "Expansion",
        "mercer.machines.svm": "SVC NuSVC SVR NuSVR OneClassSVM SVDD",
        "mercer.machines.ridge": "KernelRidge",
        "mercer.machines.regularized": (
            "KernelLogisticRegression RegularizedMachine KernelQuantileRegression "
            "KernelHuberRegression"
        ),
        "mercer.machines.sparse": "SparseKernelClassifier SparseKernelRegressor",
        "mercer.machines.rvm": "RVC RVR",
        "mercer.machines.gp": "GaussianProcessRegressor GaussianProcessClassifier",
        "mercer.machines.perceptron": "Perceptron KernelPerceptron",
        "mercer.machines.sgd": "KernelSGDClassifier KernelSGDRegressor",
        "mercer.machines.neighbors": "KernelKNNClassifier KernelKNNRegressor",
        "mercer.machines.parzen": "ParzenDensity ParzenClassifier",
        "mercer.machines.kmeans": "KernelKMeans",
        "mercer.machines.pca": "KernelPCA",
        "mercer.machines.maps": (
            "FeatureMap Nystroem RBFSampler PolynomialCountSketch"
        ),
        "mercer.optimization": "optimize",
        "mercer.search.cv": "KernelSearchCV",
        "mercer.theory.condition": "check repair",
        "mercer.theory.table": "bounds",
        "mercer.explanations.explaining": "explain",
        "mercer.explanations.explanation": "Explanation",
        "mercer.io.models": "save load",
        "mercer.laboratory.opening": "open_lab",
    },
    (
        "data",
        "densities",
        "io",
        "losses",
        "paths",
        "planning",
        "plots",
        "solvers",
        "theory",
    ),
    ("__version__",),
)
