# Written by tools/public_names.py: the names `__init__.py` loads when used.

from mercer.io.save import load as load
from mercer.io.save import load_expansion as load_expansion
from mercer.io.save import save as save
