"""Explanations: f(x) as a sum of parts that can be read, with nothing left over."""
