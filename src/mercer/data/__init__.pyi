# Written by tools/public_names.py: the names `__init__.py` loads when used.

from mercer.data.blocks import Blocks as Blocks
from mercer.data.blocks import as_blocks as as_blocks
from mercer.data.graphs import Graph as Graph
from mercer.data.trees import Tree as Tree
from mercer.data.trees import tag as tag
