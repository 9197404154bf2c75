# Written by tools/public_names.py: the names `__init__.py` loads when used.

from mercer.kernels.approximate import EntryError as EntryError
from mercer.kernels.generative import Information as Information
from mercer.kernels.string import edit_distance as edit_distance
