"""Exact arithmetic of quantization: pure functions on numpy arrays, no graphs and no models.

In: codes, scales, zero points. Out: codes, tables, bounds, certificates. See the modules:

    codes        the element types that hold codes, and those that hold scales
    params       scale, zero point, axis, block; what is wrong with them
    movement     the parameters of a tensor that is transposed, reshaped, sliced ...
    rounding     rounding modes, the order of rounding and zero point, exact quotients
    affine       QuantizeLinear and DequantizeLinear, as ONNX computes them and exactly
    requantize   accumulator -> code, as each runtime or accelerator computes it
    clamp        Relu and Clip in front of QuantizeLinear, as bounds on codes
    table        lookup tables for pointwise functions
    accumulator  how large sums of products become
    cause        why the codes of two implementations differ
    certificate  evidence for a rewrite: exhausted, all steps compared, or bounded
    reference    an exact value for every quantized operator
"""
