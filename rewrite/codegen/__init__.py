"""Kernel specs in, LLVM modules out: the code of each kind of kernel, for any instruction set."""
