"""Target YAML to a `Target`. In: a name or file. Out: `load.load_target`, `support.unsupported`."""
