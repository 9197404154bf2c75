"""Write the stubs that show type checkers the names packages load when first used.

python tools/public_names.py            write src/mercer/**/__init__.pyi
python tools/public_names.py --check    fail where one differs from what it would be
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "mercer"


def stub(path: Path) -> str | None:
    """The stub of a package whose `__init__.py` calls `loaded_on_use`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "loaded_on_use":
            names = ast.literal_eval(node.args[1])
            modules = ast.literal_eval(node.args[2]) if len(node.args) > 2 else ()
            break
    else:
        return None
    package = ".".join(["mercer", *path.parent.relative_to(SOURCE).parts])
    lines = [f"from {package} import {name} as {name}" for name in modules]
    for module, some in names.items():
        for name in some.split():
            line = f"from {module} import {name} as {name}"
            if len(line) > 88:
                line = f"from {module} import (\n    {name} as {name},\n)"
            lines.append(line)
    head = (
        "# Written by tools/public_names.py: the names `__init__.py` loads when used.\n"
    )
    version = "\n__version__: str\n" if package == "mercer" else ""
    return head + "\n" + "\n".join(sorted(lines)) + "\n" + version


def main() -> int:
    stale = []
    for path in sorted(SOURCE.rglob("__init__.py")):
        text, target = stub(path), path.with_suffix(".pyi")
        if text is None or (target.exists() and target.read_text("utf-8") == text):
            continue
        stale.append(str(target.relative_to(SOURCE.parent.parent)))
        if "--check" not in sys.argv:
            target.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        print("Run tools/public_names.py; these are out of date:", *stale)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
