"""Cases that would show what the tests of a pack do not show yet."""
