"""Files: machines, written and read without running code; data; other formats."""

from mercer._names import loaded_on_use

__getattr__, __dir__, __all__ = loaded_on_use(
    __name__,
    {
        "mercer.io.save": "save load load_expansion",
        "mercer.io.onnx": "to_onnx save_onnx",
    },
)
