"""The operators: schemas, declarations, type inference, reference values.

Import the module you need: `schemas`, `legacy`, `registry`, `infer`, `evaluate`. The family
modules with the declarations load at the first look-up.
"""
