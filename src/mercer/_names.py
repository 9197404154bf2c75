"""Public names of a package that are loaded when they are first used.

So importing the package costs next to nothing. Threads that import parts of
scikit-learn at the same time can find them half made: one thread at a time.
"""

import importlib
import sys
import threading
from collections.abc import Callable, Mapping

_importing = threading.RLock()


def loaded_on_use(
    package: str,
    names: Mapping[str, str],
    modules: tuple[str, ...] = (),
    there: tuple[str, ...] = (),
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package.

    Parameters
    ----------
    names : for each module, the names that it gives to the package, with spaces
    modules : modules and packages below it that are public themselves
    there : further public names, which the package has from the start
    """
    home = {name: module for module, some in names.items() for name in some.split()}
    public = [*there, *home, *modules]

    def load(name: str) -> object:
        if name not in home and name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with _importing:
            if name in modules:
                value: object = importlib.import_module(f"{package}.{name}")
            else:
                value = getattr(importlib.import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted(public), public
