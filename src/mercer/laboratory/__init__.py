"""The laboratory: a local page on which kernels are seen, dragged and stepped through.

`mercer lab` opens it. The page draws; every number comes from the library, through the
server in `mercer.laboratory.server`. What they tell each other is in `openapi.yaml`.
"""
