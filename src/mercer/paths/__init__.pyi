# Written by tools/public_names.py: the names `__init__.py` loads when used.

from mercer.paths.curves import ErrorCurve as ErrorCurve
from mercer.paths.ridge import RidgePath as RidgePath
from mercer.paths.ridge import ridge_path as ridge_path
from mercer.paths.svm import ClassifierPath as ClassifierPath
from mercer.paths.svm import Path as Path
from mercer.paths.svm import nu_path as nu_path
from mercer.paths.svm import svm_path as svm_path
from mercer.paths.svm import svr_path as svr_path
