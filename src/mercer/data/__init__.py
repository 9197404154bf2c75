"""What points are: vectors, sequences, trees, graphs, records."""

from mercer._names import loaded_on_use

__getattr__, __dir__, __all__ = loaded_on_use(
    __name__,
    {
        "mercer.data.blocks": "Blocks as_blocks",
        "mercer.data.trees": "Tree tag",
        "mercer.data.graphs": "Graph",
    },
)
