# Written by tools/public_names.py: the names `__init__.py` loads when used.

from mercer.io.libsvm import LibsvmModel as LibsvmModel
from mercer.io.libsvm import read_libsvm_model as read_libsvm_model
from mercer.io.libsvm import write_libsvm_model as write_libsvm_model
from mercer.io.svmlight import SvmlightBlocks as SvmlightBlocks
from mercer.io.svmlight import SvmlightData as SvmlightData
from mercer.io.svmlight import read_svmlight as read_svmlight
from mercer.io.svmlight import write_svmlight as write_svmlight
