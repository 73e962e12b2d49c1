"""A model and its sizes in, a plan out: kernels, layouts, memory."""
