"""Models on which a rule is tried. In: a rule of a pack. Out: `Instance`s (`generate`)."""
