"""The exact oracle: whole models under the real-number meaning of quantization.

In: a model, feeds. Out: values that are exact, or known within a bound. See the modules:

    run          the model, node by node; what is refused
    terms        exact arrays: integers times rationals
    real         sums of exact terms; signs, nearest integers
    quantize     QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear
    contraction  MatMul, Gemm, Conv, ConvTranspose
    pointwise    elementwise operators
    reduction    sums, means, extrema, pools
    movement     operators that move elements; Cast
    qlinear      operators on codes, by their meaning
    integers     MatMulInteger, ConvInteger
    standard     operators in the model's own element types
    islands      which floats are machine numbers
    compare      two models, in steps of the last quantization
"""
