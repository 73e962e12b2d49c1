"""What two models, packs or targets have different: plain dictionaries, as `--json` writes them."""
