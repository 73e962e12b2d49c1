"""Provers: one module each, found by scanning this folder (see `rewrite.audit.claims.proof`)."""
