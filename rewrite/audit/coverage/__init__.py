"""How much of the rules of a pack its tests reach."""
