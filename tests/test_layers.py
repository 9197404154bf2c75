"""The import rules: a module imports from the layers below its own, never sideways."""

import ast
import functools
import sys
from itertools import pairwise
from pathlib import Path

from looped import looped

PACKAGE = Path(__file__).parents[1] / "src" / "mercer"

# From the top; "kernels/" places every module of that folder.
LAYERS = [
    ["__main__"],
    ["cli/"],
    ["laboratory/"],
    ["optimization", "paths/", "explanations/", "search/"],
    ["plots/", "io/"],
    ["theory/"],  # it judges machines, so it stands above them
    ["machines/"],
    ["multiclass", "distributed", "planning", "contributions/"],
    ["calibration", "road_costs"],
    ["solvers/", "expansion"],
    ["losses", "outcomes"],
    ["gram", "maps"],
    ["kernels/"],
    ["densities/"],
    ["data/"],
    ["native/"],
    ["_core", "_names", "_html"],
]

# What the other modules of a folder may import; each of these only those before it.
FOUNDATIONS = {
    "native": "clock sorting threads interruptible memory sparsity".split(),
    "data": ["blocks", "partitions", "checks", "frames", "points", "copies", "edges"],
    "densities": ["base", "normals", "categories", "passes"],
    "kernels": "latex cache checks parameters base operators ways counts explicit "
    "vector fragments candidates occurrences routes radial dotproduct algebra window "
    "landmarks approximate".split(),
    "explanations": ["explanation", "functions", "items", "ways"],
    "contributions": ["parts", "models", "places", "search", "features"],
    "solvers": "resume limits rounding linear variables boxqp box_certificate programs "
    "polish held_rows feature_rows computed_rows single_rows partitioned_map "
    "partitioned_rows partition "
    "cluster_states features landmark_rows smoothed newton_steps overlap roads "
    "class_pairs weights products krylov primal penalized columns feature_newton lasso "
    "lasso_features sgd components bayes posterior smo matrix_sum partitioned_values "
    "feature_descent ascent laplace".split(),
    "solvers/auto": ["small", "costs", "support", "holding", "smo"],
    "machines": "labels checks words trials wrappers estimator base progress "
    "parallel".split(),
    "machines/svm": ["kept", "model", "mixtures", "base", "classifier"],
    "machines/sgd": ["visits", "base"],
    "machines/regularized": ["base"],
    "machines/sparse": ["terms", "base"],
    "machines/gp": ["base"],
    "theory": "formulas mistakes assumptions leave_one_out".split(),
    "plots": ["base", "structures"],
    "paths": ["checks", "curves"],
    "search": "journal sharing answers judging spaces table run".split(),
    "cli": "main options svm_text svm_data svm_train live settings scores pictures "
    "report checkpoints".split(),
    "io": "container classes records operations formulas svmlight files cells dataset "
    "strings tables".split(),
    "laboratory": "refusals fields frames jobs offers formulas state fits datasets "
    "structures course catalog pasting views steps panels figures code step_code "
    "figure_code answers server".split(),
}
# These see their whole folder, and nothing else in it sees them; "auto" is itself one.
ROOFS = {"parse", "gradients", "auto", "reading", "__init__"}
ROOFS |= {"gradient_rules", "gradient_links"}

# The files of each folder, so that a new one is placed on purpose.
MODULES = {
    "": "__main__ _names _html multiclass calibration distributed expansion gram "
    "losses maps outcomes road_costs planning optimization",
    "explanations": "explanation functions items ways explaining",
    "contributions": "parts models places search features shapley heavy tables",
    "native": "clock vectors memory threads lapack interruptible sparsity sorting rows "
    "tall whole",
    "data": "blocks partitions checks frames points given copies parts matching "
    "sequences trees graphs edges",
    "densities": "base normals categories passes gaussian chain hmm",
    "kernels": "latex cache checks parameters base operators ways counts explicit "
    "vector algebra parse radial dotproduct coordinate window string substring "
    "fragments candidates tree occurrences convolution routes graph walk node distance "
    "generative slopes landmarks approximate nystrom random_features multiple "
    "differences gradient_rules gradient_links gradients",
    "solvers": "resume limits variables boxqp box_certificate programs held_rows "
    "feature_rows computed_rows single_rows partitioned_map "
    "partitioned_rows partitioned_values features landmark_rows "
    "smoothed newton_steps overlap feature_descent primal semismooth penalized krylov "
    "smo hull coordinate linear cholesky conjugate_gradient normal_equations newton "
    "columns feature_newton ball l1 perceptron sgd sgd_features budget eigen partition "
    "cluster_states clusters lasso lasso_features components products preimage bayes "
    "posterior evidence rounding class_pairs nearest windows roads weights matrix_sum "
    "multiple polish "
    "chunking decomposition ascent laplace gaussian path update bordered pair_steps",
    "solvers/auto": "small costs support holding smo linear penalized l1 components",
    "machines": "base estimator wrappers labels checks words trials progress ridge "
    "perceptron rvm neighbors kmeans pca parzen maps parallel",
    "machines/svm": "kept model mixtures base classifier svc svr one_class",
    "machines/sgd": "visits base classifier regressor",
    "machines/regularized": "base machine regression logistic",
    "machines/sparse": "terms base classifier regressor",
    "machines/gp": "base classifier regressor",
    "theory": "condition geometry operator mistakes formulas assumptions leave_one_out "
    "table aligning",
    "plots": "base gram regions curves losses runs structures margins maps search smo "
    "weights paths explanations",
    "paths": "checks curves svm ridge",
    "search": "journal sharing answers judging spaces table run cv",
    "io": "container classes records models operations formulas onnx svmlight libsvm "
    "files cells dataset tables parquet strings trees graphs molecules reading "
    "checkpoints",
    "cli": "options libsvm svm_text svm_data svm_train svm_predict svm_scale svm_grid "
    "main completion live settings scores pictures report checkpoints training tuning "
    "prediction explaining looking conversion bench lab",
    "laboratory": "refusals fields frames jobs offers formulas state fits datasets "
    "structures course catalog pasting views steps panels figures code step_code "
    "figure_code answers server launch "
    "opening",
}

# Who may import a package from outside; numpy and scipy are free to all.
ALLOWED = {
    "sklearn": {
        *(
            "machines/",
            "theory/",
            "plots/",
            "io/",
            "cli/",
            "laboratory/",
            "explanations/",
        ),
        *("paths/", "search/", "optimization"),
    },
    "narwhals": {"data/frames"},
    "matplotlib": {"plots/"},
    "mpl_toolkits": {"plots/"},
    "dask": {"distributed"},
    "distributed": {"distributed"},
    "anyio": {"laboratory/server"},
    "starlette": {"laboratory/server"},
    "uvicorn": {"laboratory/launch"},
    "rich": {"cli/live"},
    "pyarrow": {"io/parquet"},
    "rdkit": {"io/molecules"},
    "onnx": {"io/onnx"},
    "threadpoolctl": {"native/threads"},
}
# One Python file for each native source.
NATIVE = {
    "native/vectors": "vectors.cpp",
    "native/threads": "threads.cpp",
    "native/memory": "kept.cpp",
    "native/rows": "keys.cpp",
    "native/tall": "tall.cpp",
    "native/whole": "whole.cpp",
    "multiclass": "votes.cpp",
    "solvers/boxqp": "bounds.cpp",
    "solvers/smo": "smo.cpp",
    "solvers/matrix_sum": "matrix_sum.cpp",
    "solvers/weights": "simplex.cpp",
    "solvers/perceptron": "perceptron.cpp",
    "solvers/sgd": "sgd.cpp",
    "solvers/budget": "budget.cpp",
    "solvers/partition": "clusters.cpp",
    "solvers/l1": "l1.cpp",
    "solvers/feature_rows": "features.cpp",
    "data/sequences": "strings.cpp",
    "densities/normals": "normals.cpp",
    "densities/passes": "hidden.cpp",
    "kernels/tree": "trees.cpp",
    "kernels/walk": "walks.cpp",
    "io/svmlight": "svmlight.cpp",
    "io/libsvm": "ordered.cpp",
}
# Imports inside a function, each with its reason.
LATE = {
    ("native/vectors", "scipy.linalg.cython_blas"): "slow, and few processes need it",
    ("native/lapack", "scipy.linalg.cython_blas"): "for large matrices only",
    ("native/lapack", "scipy.linalg.cython_lapack"): "for large matrices only",
}


def modules():
    files = sorted(PACKAGE.rglob("*.py"))
    return {
        path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in files
    }


SOURCES = modules()
PLACED = [name for name in SOURCES if name != "__init__"]


def name_of(dotted):
    """mercer.kernels.base -> kernels/base, and kernels/__init__ for a folder."""
    name = dotted.removeprefix("mercer").removeprefix(".").replace(".", "/")
    return f"{name}/__init__".removeprefix("/") if (PACKAGE / name).is_dir() else name


# What a statement may be inside of; expressions hold no imports.
PARTS = ast.stmt | ast.excepthandler | ast.match_case


def imports(source, module):
    """The imports of a source: (what, whether inside a function)."""
    folder = ["mercer", *module.split("/")[:-1]]

    found, pending = [], [(ast.parse(source), False)]
    while pending:
        node, late = pending.pop()
        late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.Import):
            found += [(alias.name, late) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) + 1 - node.level] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                found.append((inner if is_module(inner) else origin, late))
        inner = [part for part in ast.iter_child_nodes(node) if isinstance(part, PARTS)]
        pending += [(part, late) for part in reversed(inner)]
    return found


def is_module(dotted):
    if not dotted.startswith("mercer."):
        return False
    path = PACKAGE / name_of(dotted)
    return path.with_suffix(".py").exists() or dotted == "mercer._core"


def layer_of(module):
    for depth, layer in enumerate(LAYERS):
        if any(covers(place, module) for place in layer):
            return depth
    raise LookupError(f"{module} is in no layer; add it to LAYERS.")


def covers(place, module):
    return module.startswith(place) if place.endswith("/") else module == place


def offence(module, target):
    """Why `module` may not import `target`, or None."""
    folder, _, name = module.rpartition("/")
    other, _, part = target.rpartition("/")
    if target == "__init__":
        return "the lazy names are for users"
    if folder.startswith(f"{other}/"):
        # A folder inside a folder stands on the foundation of the outer one; one that
        # is its roof, on all of it.
        inner = folder.removeprefix(f"{other}/").split("/")[0]
        known = inner in ROOFS or part in FOUNDATIONS[other]
        return None if known else "sideways inside the folder"
    if folder and folder == other:
        foundation = FOUNDATIONS[folder]
        if name in ROOFS:
            return None
        if part not in foundation and part != "__init__":
            return "sideways inside the folder"
        if name in foundation and foundation.index(name) <= foundation.index(part):
            return "upwards inside the foundation"
        return None
    if folder.startswith(f"{other}/"):  # of one family: what all of them share
        return None if part in FOUNDATIONS[other] else "sideways out of the family"
    if layer_of(target) <= layer_of(module):
        return "not from a layer below"
    return None


@functools.cache
def imported():
    """What each module imports."""
    return {name: imports(SOURCES[name].read_text(), name) for name in PLACED}


def test_modules_import_only_from_below():
    offences = {
        (module, target): why
        for module, found in imported().items()
        for target in (name_of(n) for n, _ in found if n.split(".")[0] == "mercer")
        if (why := offence(module, target))
    }
    assert offences == {}


def test_modules_import_only_the_packages_they_may():
    for module, found in imported().items():
        for package in {name.split(".")[0] for name, _ in found}:
            if package in sys.stdlib_module_names | {"numpy", "scipy", "mercer"}:
                continue
            assert package in ALLOWED, f"{module} imports {package}, which nobody may"
            places = ALLOWED[package]
            assert any(covers(at, module) for at in places), f"{package} in {module}"


def test_only_one_file_for_each_native_source_imports_the_core():
    users = {
        module
        for module, found in imported().items()
        if any("_core" in name for name, _ in found)
    }
    assert users and users <= set(NATIVE)


def test_modules_import_at_their_top():
    late = {
        (module, name)
        for module, found in imported().items()
        for name, inside in found
        if inside
    }
    assert late <= LATE.keys()


def test_every_module_is_placed():
    known = {
        f"{folder}/{name}".removeprefix("/")
        for folder, names in MODULES.items()
        for name in [*names.split(), "__init__"]
    }
    assert set(SOURCES) <= known, "a new file: give it its place in this list"


def test_package_itself_loads_only_the_standard_library():
    tree = ast.parse(SOURCES["__init__"].read_text())
    tree.body = [node for node in tree.body if not is_type_checking(node)]
    assert list(imports(ast.unparse(tree), "__init__"))
    for name, _ in imports(ast.unparse(tree), "__init__"):
        if name != "mercer._names":
            assert name.split(".")[0] in sys.stdlib_module_names
    for name, _ in imports(SOURCES["_names"].read_text(), "_names"):
        assert name.split(".")[0] in sys.stdlib_module_names


def is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def test_problems_solvers_and_classes_do_not_reach_scikit_learn():
    # Its import is slow: what trains and predicts without a machine goes without it.
    pending, seen = (
        {"multiclass", "solvers/programs", "solvers/smo", "kernels/radial"}
        | {"io/libsvm", "cli/libsvm"}
        | {f"cli/svm_{tool}" for tool in ("train", "predict", "scale", "grid")},
        set(),
    )
    while pending:
        module = pending.pop()
        seen.add(module)
        for name, _ in imported()[module]:
            assert not name.startswith("sklearn"), f"they reach it by {module}"
            if name.startswith("mercer"):
                pending |= {name_of(name)} & imported().keys() - seen
    assert {"gram", "expansion", "outcomes", "kernels/base", "data/points"} <= seen


@looped(
    "module, source, target",
    [
        ("data/points", "from mercer.kernels.base import Kernel", "kernels/base"),
        ("kernels/radial", "from mercer.kernels import node", "kernels/node"),
        ("kernels/base", "from .ways import PairKernel", "kernels/ways"),
        ("kernels/base", "import mercer.gram", "gram"),
        ("gram", "from mercer import expansion", "expansion"),
        ("gram", "from mercer import Kernel", "__init__"),
        ("kernels/algebra", "from mercer.kernels.parse import parse", "kernels/parse"),
        ("machines/sparse/base", "from mercer.machines import rvm", "machines/rvm"),
        (
            "solvers/hull",
            "from mercer.solvers.auto import AutoSMO",
            "solvers/auto/__init__",
        ),
        (
            "solvers/auto/l1",
            "from mercer.solvers.auto.linear import AutoLinear",
            "solvers/auto/linear",
        ),
        (
            "machines/rvm",
            "from mercer.machines.sparse.base import SparsePath",
            "machines/sparse/base",
        ),
    ],
)
def test_an_offence_is_found(module, source, target):
    [(name, _)] = imports(source, module)
    assert name_of(name) == target
    assert offence(module, target)


@looped(
    "module, source",
    [
        ("kernels/radial", "from mercer.kernels.vector import VectorKernel"),
        ("kernels/radial", "from mercer.data import points"),
        ("kernels/parse", "from mercer.kernels import algebra"),
        ("solvers/hull", "from .boxqp import BoxQP"),
        ("solvers/auto/linear", "from mercer.solvers.cholesky import Cholesky"),
        ("native/vectors", "from mercer import _core"),
        ("machines/sparse/base", "from mercer.machines.base import Machine"),
    ],
)
def test_an_import_from_below_is_no_offence(module, source):
    [(name, _)] = imports(source, module)
    assert offence(module, name_of(name)) is None


def test_an_import_inside_a_function_is_found():
    source = "import os\ndef f():\n    if True:\n        import sys"
    assert imports(source, "gram") == [("os", False), ("sys", True)]


def test_layers_are_disjoint():
    places = [place for layer in LAYERS for place in layer]
    assert all(a != b for a, b in pairwise(sorted(places)))
