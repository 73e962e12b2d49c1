"""One runtime in a process of its own: `python compare_peer.py NAME MODEL FEEDS.npz CPU OUT.npz`.

In: the name of a runtime, a model, feeds, the processor that it is bound to. Reads numbers of runs
from stdin, one a line, and answers each with the seconds of processor time that the runs took, a
line each. At the end of stdin the outputs of one more run, in order, are written to OUT. Runtimes
compute in float32 where the model does and on one thread.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import numpy as np

Feeds = dict[str, np.ndarray]
Run = Callable[[], object]


def ours(target: str | None) -> Callable[[str, Feeds], Run]:
    def start(model: str, feeds: Feeds) -> Run:
        import rewrite

        session = rewrite.compile(model, target=target, threads=1)
        return lambda: session.run(feeds)

    return start


def onnxruntime(model: str, feeds: Feeds) -> Run:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


def openvino(model: str, feeds: Feeds) -> Run:
    import openvino as ov

    core = ov.Core()
    read = core.read_model(model)
    read.reshape({name: list(x.shape) for name, x in feeds.items()})
    settings = {
        "INFERENCE_NUM_THREADS": 1,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "ENABLE_CPU_PINNING": False,  # the whole process is pinned already
        # Without it processors with bfloat16 compute float32 models in that.
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(read, "CPU", settings).create_infer_request()
    inputs = {name: ov.Tensor(np.ascontiguousarray(x)) for name, x in feeds.items()}
    return lambda: request.infer(inputs)


PEERS: dict[str, Callable[[str, Feeds], Run]] = {
    "rewrite": ours("host"),
    "unrewritten": ours(None),
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}


def main(name: str, model: str, feeds_file: str, cpu: str, out: str) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(cpu)})
    with np.load(feeds_file) as stored:
        feeds = {key: stored[key] for key in stored.files}
    run = PEERS[name](model, feeds)
    run()
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            start = time.process_time()
            run()
            print(time.process_time() - start)
        print("done", flush=True)
    results = run()
    arrays = list(results.values()) if hasattr(results, "values") else list(results)  # type: ignore[call-overload]
    np.savez(out, *[np.asarray(array) for array in arrays])


if __name__ == "__main__":
    main(*sys.argv[1:])
