# Written by tools/public_names.py: the names `__init__.py` loads when used.

from mercer.densities.base import Density as Density
from mercer.densities.base import Fit as Fit
from mercer.densities.categories import Categories as Categories
from mercer.densities.chain import MarkovChain as MarkovChain
from mercer.densities.gaussian import Gaussian as Gaussian
from mercer.densities.gaussian import GaussianMixture as GaussianMixture
from mercer.densities.hmm import HMM as HMM
from mercer.densities.normals import Normals as Normals
