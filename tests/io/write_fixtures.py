"""Write model files for later releases to read: python tests/io/write_fixtures.py.

Each release that changes the form of the files adds those it writes, with what its
machines say; none is ever removed or written again.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import model_cases  # noqa: E402
import numpy as np  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

import mercer  # noqa: E402
from mercer.data.points import count  # noqa: E402

NAMES = (
    *("SVC with probabilities", "SVC on landmarks", "SVC in single precision"),
    *("SVDD", "KernelRidge", "KernelLogisticRegression", "RVC", "Perceptron"),
    *("SparseKernelClassifier on words", "KernelSGDClassifier, streamed"),
    *("KernelPerceptron, streamed on features", "KernelKNNClassifier", "KernelKMeans"),
    *("ParzenDensity", "KernelPCA", "FeatureMap of words", "FeatureMap of landmarks"),
    *("on CSR", "on pandas", "on sentences", "on trees", "on graphs", "on nodes"),
    "of a chain",
)
PIPELINE = "SVC behind a scaler"
ANSWERS = "predict decision_function predict_proba score_samples transform".split()


def case(name):
    """A machine, and new points."""
    if name != PIPELINE:
        return model_cases.case(name)
    machine = make_pipeline(StandardScaler(), mercer.SVC())
    X = model_cases.vectors()
    return machine.fit(X, model_cases.three()), model_cases.catalog.vectors(2, 7)


def said(machine, new):
    """What a machine says of new points, as JSON has it."""
    found = {}
    for name in ANSWERS:
        if hasattr(machine, name):
            values = getattr(machine, name)(new)
            values = values.toarray() if hasattr(values, "toarray") else values
            found[name] = np.asarray(values).tolist()
    return found


def main():
    folder = HERE / "fixtures" / mercer.__version__
    folder.mkdir(parents=True)
    points, expected = {}, {}
    for name in (*NAMES, PIPELINE):
        machine, new = case(name)
        file = f"{name.replace(',', '').replace(' ', '_')}.mercer"
        mercer.save(machine, folder / file)
        # New points are in files of their own: f = 0 on them.
        zero = mercer.Expansion(mercer.Constant(), new, np.zeros(count(new)))
        mercer.save(zero, folder / "points")
        raw = (folder / "points").read_bytes()
        number = points.setdefault(raw, len(points))
        (folder / "points").rename(folder / f"points_{number}.mercer")
        expected[file] = {"points": f"points_{number}.mercer", **said(machine, new)}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
