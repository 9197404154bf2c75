"""Machines: scikit-learn estimators around an expansion."""
