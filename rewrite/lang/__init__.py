"""Rule text and pack.yaml to a `RulePack`. In: text, a `Vocabulary`. Out: `pack.load_packs`."""
