"""Rules as formulas. In: a compiled rule. Out: what z3 says of them (`values`, `shapes`)."""
