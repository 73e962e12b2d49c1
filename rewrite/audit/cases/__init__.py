"""The tests of rules: examples inside rules and `*.cases.yaml` beside them, found, run, updated."""
