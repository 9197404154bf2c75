"""What a small problem is, and how it is solved to rounding.

At next to no cost: then it does not show in what order the points came, or whether one
counted twice or came twice.
"""

SMALL = 256  # variables
ROUNDING = 1e-11
STEPS = 200  # for each variable; a small problem that takes more is solved to tol
