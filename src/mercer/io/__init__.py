"""Files: machines, written and read without running code; data; other formats."""

from mercer._names import loaded_on_use

__getattr__, __dir__, __all__ = loaded_on_use(
    __name__,
    {
        "mercer.io.dataset": "Dataset",
        "mercer.io.reading": "read",
        "mercer.io.tables": "read_csv read_numpy",
        "mercer.io.parquet": "read_parquet",
        "mercer.io.strings": "read_fasta read_fastq read_strings",
        "mercer.io.trees": "read_trees",
        "mercer.io.graphs": "read_tu read_edges from_networkx",
        "mercer.io.molecules": "read_smiles from_smiles",
        "mercer.io.svmlight": (
            "read_svmlight write_svmlight SvmlightData SvmlightBlocks"
        ),
        "mercer.io.libsvm": "LibsvmModel read_libsvm_model write_libsvm_model",
        "mercer.io.models": "save load load_expansion",
        "mercer.io.onnx": "to_onnx save_onnx",
    },
)
