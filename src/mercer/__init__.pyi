# Written by tools/public_names.py: the names `__init__.py` loads when used.

from mercer import data as data
from mercer import densities as densities
from mercer import losses as losses
from mercer import plots as plots
from mercer import solvers as solvers
from mercer import theory as theory
from mercer.data.graphs import Graph as Graph
from mercer.data.trees import Tree as Tree
from mercer.expansion import Expansion as Expansion
from mercer.gram import Gram as Gram
from mercer.kernels.algebra import Centered as Centered
from mercer.kernels.algebra import Conformal as Conformal
from mercer.kernels.algebra import Exp as Exp
from mercer.kernels.algebra import Normalized as Normalized
from mercer.kernels.algebra import On as On
from mercer.kernels.algebra import PolynomialOf as PolynomialOf
from mercer.kernels.algebra import Pullback as Pullback
from mercer.kernels.approximate import Nystrom as Nystrom
from mercer.kernels.approximate import PolynomialSketch as PolynomialSketch
from mercer.kernels.approximate import RandomFourier as RandomFourier
from mercer.kernels.base import Constant as Constant
from mercer.kernels.base import Kernel as Kernel
from mercer.kernels.base import Power as Power
from mercer.kernels.base import Product as Product
from mercer.kernels.base import Scaled as Scaled
from mercer.kernels.base import Sum as Sum
from mercer.kernels.convolution import Convolution as Convolution
from mercer.kernels.coordinate import Anova as Anova
from mercer.kernels.coordinate import ChiSquared as ChiSquared
from mercer.kernels.coordinate import Intersection as Intersection
from mercer.kernels.coordinate import Spline as Spline
from mercer.kernels.distance import FromDistance as FromDistance
from mercer.kernels.dotproduct import DotProduct as DotProduct
from mercer.kernels.dotproduct import Sigmoid as Sigmoid
from mercer.kernels.explicit import GaussianSeries as GaussianSeries
from mercer.kernels.generative import Fisher as Fisher
from mercer.kernels.generative import Natural as Natural
from mercer.kernels.graph import ShortestPath as ShortestPath
from mercer.kernels.graph import WeisfeilerLehman as WeisfeilerLehman
from mercer.kernels.node import Diffusion as Diffusion
from mercer.kernels.node import MatrixExponential as MatrixExponential
from mercer.kernels.parse import parse as parse
from mercer.kernels.radial import Laplacian as Laplacian
from mercer.kernels.radial import Matern as Matern
from mercer.kernels.radial import RBF as RBF
from mercer.kernels.radial import Radial as Radial
from mercer.kernels.radial import RationalQuadratic as RationalQuadratic
from mercer.kernels.string import EditSimilarity as EditSimilarity
from mercer.kernels.string import Subsequence as Subsequence
from mercer.kernels.string import WeightedDegree as WeightedDegree
from mercer.kernels.substring import Mismatch as Mismatch
from mercer.kernels.substring import Spectrum as Spectrum
from mercer.kernels.substring import WeightedSubstrings as WeightedSubstrings
from mercer.kernels.tree import PartialTree as PartialTree
from mercer.kernels.tree import SubsetTree as SubsetTree
from mercer.kernels.tree import Subtree as Subtree
from mercer.kernels.tree import TaggedTree as TaggedTree
from mercer.kernels.vector import Bilinear as Bilinear
from mercer.kernels.vector import Exponential as Exponential
from mercer.kernels.vector import Linear as Linear
from mercer.kernels.vector import Polynomial as Polynomial
from mercer.kernels.vector import PowerSeries as PowerSeries
from mercer.kernels.walk import RandomWalk as RandomWalk
from mercer.kernels.ways import BlockFunction as BlockFunction
from mercer.kernels.ways import FeatureFunction as FeatureFunction
from mercer.kernels.ways import FeatureKernel as FeatureKernel
from mercer.kernels.ways import PairFunction as PairFunction
from mercer.kernels.ways import PairKernel as PairKernel
from mercer.kernels.ways import Precomputed as Precomputed
from mercer.kernels.ways import RankOne as RankOne
from mercer.kernels.window import ProductWindow as ProductWindow
from mercer.kernels.window import RadialWindow as RadialWindow
from mercer.machines.kmeans import KernelKMeans as KernelKMeans
from mercer.machines.neighbors import KernelKNNClassifier as KernelKNNClassifier
from mercer.machines.neighbors import KernelKNNRegressor as KernelKNNRegressor
from mercer.machines.parzen import ParzenClassifier as ParzenClassifier
from mercer.machines.parzen import ParzenDensity as ParzenDensity
from mercer.machines.pca import KernelPCA as KernelPCA
from mercer.machines.perceptron import KernelPerceptron as KernelPerceptron
from mercer.machines.perceptron import Perceptron as Perceptron
from mercer.machines.regularized import (
    KernelLogisticRegression as KernelLogisticRegression,
)
from mercer.machines.regularized import (
    KernelQuantileRegression as KernelQuantileRegression,
)
from mercer.machines.regularized import KernelHuberRegression as KernelHuberRegression
from mercer.machines.regularized import RegularizedMachine as RegularizedMachine
from mercer.machines.ridge import KernelRidge as KernelRidge
from mercer.machines.rvm import RVC as RVC
from mercer.machines.rvm import RVR as RVR
from mercer.machines.sgd import KernelSGDClassifier as KernelSGDClassifier
from mercer.machines.sgd import KernelSGDRegressor as KernelSGDRegressor
from mercer.machines.sparse import SparseKernelClassifier as SparseKernelClassifier
from mercer.machines.sparse import SparseKernelRegressor as SparseKernelRegressor
from mercer.machines.svm import NuSVC as NuSVC
from mercer.machines.svm import NuSVR as NuSVR
from mercer.machines.svm import OneClassSVM as OneClassSVM
from mercer.machines.svm import SVC as SVC
from mercer.machines.svm import SVDD as SVDD
from mercer.machines.svm import SVR as SVR
from mercer.theory.condition import check as check
from mercer.theory.condition import repair as repair
from mercer.theory.table import bounds as bounds

__version__: str
