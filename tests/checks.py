"""scikit-learn's checks: all of them for a class of machines, some for its variants.

How a class is built, and in which container, layout or type points and weights come in,
is the same whatever its loss, its solver or its parameters. The checks of that run for
the first machine of a class, and for the first of each way in which points are used
(`_way_in`); what is left, the checks of what was learnt, runs for every machine.
"""

import functools
import os

import pytest
from looped import looped
from sklearn.base import is_classifier
from sklearn.utils.estimator_checks import parametrize_with_checks

OF_THE_CLASS = {
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_unfitted",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
}
OF_WHAT_COMES_IN = {
    "check_array_api_input",
    "check_classifier_data_not_an_array",
    "check_complex_data",
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_estimators_dtypes",
    "check_estimators_empty_data_messages",
    "check_estimators_nan_inf",
    "check_estimators_partial_fit_n_features",
    "check_f_contiguous_array_estimator",
    "check_fit1d",
    "check_fit2d_predict1d",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_readonly_memmap_input",
    "check_regressor_data_not_an_array",
    "check_requires_y_none",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_supervised_y_2d",
    "check_supervised_y_no_nan",
    "check_transformer_data_not_an_array",
}


def machine_checks(machines):
    """A decorator like `parametrize_with_checks`, without what a variant repeats."""
    first = {}
    for machine in machines:
        first.setdefault(_way_in(machine), machine)
    return _parametrized(
        machines,
        lambda machine, check: (
            machine is first[_way_in(machine)] or _is_of_what_is_learnt(check)
        ),
    )


def variant_checks(machines):
    """The checks of what was learnt, for machines whose classes meet all elsewhere."""
    return _parametrized(machines, lambda _, check: _is_of_what_is_learnt(check))


def _way_in(machine):
    """What decides how points are used, before there is anything to solve."""
    parameters = machine.get_params(deep=False)
    return (
        type(machine),
        is_classifier(machine),  # a loss may decide it
        _takes_values(machine),
        parameters.get("on"),
        parameters.get("budget") is None,
    )


def _is_of_what_is_learnt(check):
    name, options = check.func.__name__, check.keywords
    return not (
        name in OF_THE_CLASS
        or name in OF_WHAT_COMES_IN
        or options.get("readonly_memmap", False)
    )


def _parametrized(machines, wanted):
    """A test for each machine; its checks, a few milliseconds each, are its cases."""
    checks = {
        id(machine): [
            check
            for _, check in map(
                _values, parametrize_with_checks([machine]).mark.args[1]
            )
            if _applies(machine, check) and wanted(machine, check)
        ]
        for machine in machines
    }

    def decorate(test):
        @functools.wraps(test)
        def passes(estimator):
            of_machine = functools.partial(test, estimator)
            looped("check", checks[id(estimator)], ids=_name)(of_machine)()

        del passes.__wrapped__
        return pytest.mark.parametrize("estimator", machines, ids=repr)(passes)

    return decorate


def _checks(machine):
    return [
        _values(case)[1] for case in parametrize_with_checks([machine]).mark.args[1]
    ]


def _name(check):
    return f"{check.func.__name__} {check.keywords or ''}"


def _applies(machine, check):
    """Whether a check can say anything of a machine."""
    name = check.func.__name__
    if name == "check_array_api_input":  # skips itself otherwise
        return os.environ.get("SCIPY_ARRAY_API") == "1"
    # These give points to machines that say they take kernel values.
    gives_points = ("check_decision_proba_consistency", "check_clustering")
    return not (_takes_values(machine) and name in gives_points)


def _takes_values(machine):
    return str(machine.get_params(deep=False).get("kernel")) == "precomputed"


def _values(case):
    """The machine and the check of a case, which may be marked."""
    return getattr(case, "values", case)
