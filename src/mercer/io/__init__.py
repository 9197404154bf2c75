"""Files: points as text, models of LIBSVM."""

from mercer._names import loaded_on_use

__getattr__, __dir__, __all__ = loaded_on_use(
    __name__,
    {
        "mercer.io.svmlight": (
            "read_svmlight write_svmlight SvmlightData SvmlightBlocks"
        ),
        "mercer.io.libsvm": "LibsvmModel read_libsvm_model write_libsvm_model",
    },
)
