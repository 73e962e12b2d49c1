"""What rules promise, held against runtimes. In: packs, models. Out: `examples`, `verify`."""
