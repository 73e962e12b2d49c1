"""Help for editors: `rewrite lsp`, a language server for packs and targets."""
