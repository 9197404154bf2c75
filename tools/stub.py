"""Write the stub of the compiled module, from the module itself.

python tools/stub.py            write src/mercer/_core.pyi
python tools/stub.py --check    fail if the stub differs from what it would be

Needs nanobind, and mercer installed or `src` on PYTHONPATH with the module built.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

PATH = Path(__file__).parent.parent / "src" / "mercer" / "_core.pyi"


def stub() -> str:
    generator = StubGen(module=importlib.import_module("mercer._core"))
    generator.put(generator.module)
    return generator.get()


def main() -> int:
    text = stub()
    if "--check" not in sys.argv:
        PATH.write_text(text, encoding="utf-8")
        return 0
    if PATH.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PATH} is not what the compiled module says; run python tools/stub.py.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
