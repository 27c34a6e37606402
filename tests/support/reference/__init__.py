"""Reference pairs: one figure of omn held against the same figure of another tool, on the same workload.

`model` says what a pair is, `load` reads `catalog/references/*.yaml`, `runner` runs one and `verdict` says how it went.
"""
