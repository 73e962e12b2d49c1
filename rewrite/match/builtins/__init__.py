"""The closed set of pure functions that rule text may call, one module per family.

In: `values.Tensor`, numbers, lists, graph values. Out: the same. `registry.find` and
`registry.functions` see every function below this folder that carries `@builtin`.
"""
