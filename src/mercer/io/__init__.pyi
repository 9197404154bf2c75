# Written by tools/public_names.py: the names `__init__.py` loads when used.

from mercer.io.dataset import Dataset as Dataset
from mercer.io.graphs import from_networkx as from_networkx
from mercer.io.graphs import read_edges as read_edges
from mercer.io.graphs import read_tu as read_tu
from mercer.io.libsvm import LibsvmModel as LibsvmModel
from mercer.io.libsvm import read_libsvm_model as read_libsvm_model
from mercer.io.libsvm import write_libsvm_model as write_libsvm_model
from mercer.io.models import load as load
from mercer.io.models import load_expansion as load_expansion
from mercer.io.models import save as save
from mercer.io.molecules import from_smiles as from_smiles
from mercer.io.molecules import read_smiles as read_smiles
from mercer.io.onnx import save_onnx as save_onnx
from mercer.io.onnx import to_onnx as to_onnx
from mercer.io.parquet import read_parquet as read_parquet
from mercer.io.reading import read as read
from mercer.io.strings import read_fasta as read_fasta
from mercer.io.strings import read_fastq as read_fastq
from mercer.io.strings import read_strings as read_strings
from mercer.io.svmlight import SvmlightBlocks as SvmlightBlocks
from mercer.io.svmlight import SvmlightData as SvmlightData
from mercer.io.svmlight import read_svmlight as read_svmlight
from mercer.io.svmlight import write_svmlight as write_svmlight
from mercer.io.tables import read_csv as read_csv
from mercer.io.tables import read_numpy as read_numpy
from mercer.io.trees import read_trees as read_trees
