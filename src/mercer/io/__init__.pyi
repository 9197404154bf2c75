# Written by tools/public_names.py: the names `__init__.py` loads when used.

from mercer.io.onnx import save_onnx as save_onnx
from mercer.io.onnx import to_onnx as to_onnx
from mercer.io.save import load as load
from mercer.io.save import load_expansion as load_expansion
from mercer.io.save import save as save
