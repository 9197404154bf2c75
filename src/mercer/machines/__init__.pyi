# Written by tools/public_names.py: the names `__init__.py` loads when used.

from mercer.machines.regularized import regularization_path as regularization_path
