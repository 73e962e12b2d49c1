"""Rules applied to a model. In: a `LoadedModel`, a `Matcher`. Out: `driver.run`, `Journal`."""
