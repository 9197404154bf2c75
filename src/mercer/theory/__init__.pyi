# Written by tools/public_names.py: the names `__init__.py` loads when used.

from mercer.theory.aligning import align as align
from mercer.theory.aligning import alignment as alignment
from mercer.theory.condition import Check as Check
from mercer.theory.condition import EmpiricalFeatures as EmpiricalFeatures
from mercer.theory.condition import Repair as Repair
from mercer.theory.condition import check as check
from mercer.theory.condition import empirical_features as empirical_features
from mercer.theory.condition import repair as repair
from mercer.theory.formulas import Bound as Bound
from mercer.theory.formulas import Bounds as Bounds
from mercer.theory.formulas import Rademacher as Rademacher
from mercer.theory.formulas import rademacher as rademacher
from mercer.theory.geometry import feature_angles as feature_angles
from mercer.theory.geometry import feature_cosines as feature_cosines
from mercer.theory.geometry import feature_distances as feature_distances
from mercer.theory.geometry import feature_norms as feature_norms
from mercer.theory.mistakes import MistakeBound as MistakeBound
from mercer.theory.mistakes import mistake_bound as mistake_bound
from mercer.theory.operator import MercerExpansion as MercerExpansion
from mercer.theory.operator import mercer_expansion as mercer_expansion
from mercer.theory.table import bounds as bounds
