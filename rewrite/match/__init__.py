"""Rules to a `Matcher`. In: a `RulePack`, a `Target`. Out: `matcher`, `interpreter`, `cache`."""
