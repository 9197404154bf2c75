"""Kernels, a file for each kind of data they compare."""

from mercer._names import loaded_on_use

__getattr__, __dir__, __all__ = loaded_on_use(
    __name__,
    {
        "mercer.kernels.string": "edit_distance",
        "mercer.kernels.generative": "Information",
        "mercer.kernels.approximate": "EntryError",
    },
)
