"""MaxUnpool: elements to where their indices say.

In: `Unpool`. Out: a kernel.
"""

from __future__ import annotations

from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.memory import load, store
from rewrite.codegen.value import Value
from rewrite.plan.spec import INDEX_OUT_OF_RANGE
from rewrite.plan.specs.pool import Unpool
from rewrite.plan.view import BYTES


@emits(Unpool)
def unpool(k: Kernel, spec: Unpool) -> None:
    f, size = k.f, BYTES[spec.dtype]
    x, indices, out = (k.pointer(i) for i in range(3))
    count, most = k.integer(3), k.integer(4)

    def one(i: Value) -> None:
        index = f.load("i64", f.at(indices, i, "i64"))
        inside = f.compare("<", index, most, signed=False)
        k.fault(INDEX_OUT_OF_RANGE, f.binary("xor", inside, True))

        def move() -> None:
            value = load(f, k.isa, spec.dtype, f.at(x, i * size), 0)
            store(f, k.isa, spec.dtype, value, f.at(out, index * size), 0)

        f.if_(inside, move)

    f.loop(0, f.select(f.compare("<", k.begin, k.end), count, f.i64(0)), one)
