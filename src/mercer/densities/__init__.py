"""Densities with a log-likelihood and its slope, for the kernels made from them."""

from mercer._names import loaded_on_use

__getattr__, __dir__, __all__ = loaded_on_use(
    __name__,
    {
        "mercer.densities.base": "Density Fit",
        "mercer.densities.normals": "Normals",
        "mercer.densities.categories": "Categories",
        "mercer.densities.gaussian": "Gaussian GaussianMixture",
        "mercer.densities.chain": "MarkovChain",
        "mercer.densities.hmm": "HMM",
    },
)
