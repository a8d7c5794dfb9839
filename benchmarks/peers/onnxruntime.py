"""ONNX Runtime on numpy arrays that share the tensors' memory.

Two ways to call it: `run`, which returns a new array, and `run_with_iobinding` with inputs and
output bound once, which reads and writes the same memory at every call: less than a call of ours
does, so it is shown and is no rival.
"""

from __future__ import annotations

from typing import Any

from benchmarks.contender import Peer, Setting, UnavailableError
from rextio_torch.bench.contender import Contender, calling


def _session(setting: Setting, *, constants: bool) -> tuple[Any, dict[str, Any]]:
    try:
        import onnxruntime  # type: ignore[import-untyped]

        from benchmarks.peers.onnx_graphs import make_model
    except ImportError as error:
        raise UnavailableError(f"{error.name} is not installed") from error
    arrays = {name: tensor.numpy() for name, tensor in setting.tensors.items()}
    weights = {parameter.name for parameter in setting.case.program.weights}
    held = {name: array for name, array in arrays.items() if constants and name in weights}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = setting.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        make_model(setting.case, held), options, providers=["CPUExecutionProvider"]
    )
    return session, {name: array for name, array in arrays.items() if name not in held}


def _run(setting: Setting, *, constants: bool = False) -> Contender:
    from benchmarks.peers.onnx_graphs import RESULT

    session, arrays = _session(setting, constants=constants)
    return calling(session.run, [RESULT], arrays)


def _bound(setting: Setting, *, constants: bool = False) -> Contender:
    session, arrays = _session(setting, constants=constants)
    import numpy
    from onnxruntime import OrtValue

    from benchmarks.peers.onnx_graphs import RESULT

    program = setting.case.program
    result = OrtValue.ortvalue_from_numpy(
        numpy.empty(
            setting.case.shape(program.result),
            numpy.int64 if program.integer_result else numpy.float32,
        )
    )
    binding = session.io_binding()
    for name, array in arrays.items():
        binding.bind_ortvalue_input(name, OrtValue.ortvalue_from_numpy(array))
    binding.bind_ortvalue_output(RESULT, result)
    timed = calling(session.run_with_iobinding, binding)

    def call() -> Any:
        timed.call()
        return result.numpy().copy()

    return Contender(call, timed.sample)


def _run_constants(setting: Setting) -> Contender:
    return _run(setting, constants=True)


def _bound_constants(setting: Setting) -> Contender:
    return _bound(setting, constants=True)


PEERS = (
    Peer("ort", _run),
    Peer("ort-bound", _bound),
    Peer("ort-constants", _run_constants, constants=True),
    Peer("ort-bound-constants", _bound_constants, constants=True),
)
