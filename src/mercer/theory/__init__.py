"""Theory as numbers: Mercer's condition and expansion, geometry, bounds."""

from mercer._names import loaded_on_use

__getattr__, __dir__, __all__ = loaded_on_use(
    __name__,
    {
        "mercer.theory.condition": (
            "check Check repair Repair empirical_features EmpiricalFeatures"
        ),
        "mercer.theory.geometry": (
            "feature_norms feature_distances feature_cosines feature_angles"
        ),
        "mercer.theory.aligning": "alignment align",
        "mercer.theory.operator": "mercer_expansion MercerExpansion",
        "mercer.theory.mistakes": "mistake_bound MistakeBound",
        "mercer.theory.formulas": "rademacher Rademacher Bound Bounds",
        "mercer.theory.table": "bounds",
    },
)
