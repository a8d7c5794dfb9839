"""The CUDA candidate: one chain under the provider's permission, a code for everything else."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rextio.cli.main import main
from rextio.config.schema import RextioConfig
from rextio.plugins import api
from rextio.plugins.api import ClaimSite, DeviceLoweringAuthorization, LoweringContext
from rextio_device_cuda.probe import parse_probe_report
from support import forms
from support.analysis import Analysis, analyse, write_project
from support.generated import functions

from rextio_torch.cli.environment import Environment, Torch
from rextio_torch.cli.errors import CliError
from rextio_torch.cuda import candidate, chain, generated, project
from rextio_torch.ops.table import OPERATORS
from rextio_torch.ops.tensor_types import CUDA_1D, CUDA_2D, CUDA_TYPES
from rextio_torch.plugin import TorchPlugin
from rextio_torch.runtime.loader import helpers
from rextio_torch.versions import DEVICE_CAPABILITY, DEVICE_PROVIDER

NOT_AUTHORISED, OUTSIDE = (diagnostic.code for diagnostic in candidate.DIAGNOSTICS)
SOURCE = Path(chain.__file__).read_text(encoding="utf-8")


def _config(provider: str | None, capability: str | None) -> RextioConfig:
    target = RextioConfig().target
    return replace(
        RextioConfig(),
        target=replace(target, device_provider=provider, device_capability=capability),
    )


WITHOUT = _config(None, None)
PERMITTED = _config(DEVICE_PROVIDER, DEVICE_CAPABILITY)

HEADER = """\
import torch
import torch.nn.functional as F
from rextio_torch.types import (
    TensorF32Cpu1D,
    TensorF32Cpu2D,
    TensorF32Cuda0_1D,
    TensorF32Cuda0_2D,
)
"""
TYPES = {
    "x": "TensorF32Cuda0_2D",
    "w": "TensorF32Cuda0_2D",
    "b": "TensorF32Cuda0_1D",
    "cpu": "TensorF32Cpu2D",
    "v": "TensorF32Cpu1D",
}


def _function(name: str, *lines: str, result: str = "TensorF32Cuda0_1D") -> str:
    parameters = ", ".join(f"{parameter}: {marker}" for parameter, marker in TYPES.items())
    body = "".join(f"    {line}\n" for line in lines)
    return f"def {name}({parameters}) -> {result}:\n{body}\n"


def _analyse(tmp_path: Path, text: str, config: RextioConfig) -> Analysis:
    return analyse(tmp_path, {"m": text}, config=config)


def test_the_chain_is_native_under_permission(tmp_path: Path) -> None:
    analysis = _analyse(tmp_path, SOURCE, PERMITTED)
    assert analysis.native("m.chain")
    assert [type(result) for _, result in analysis.offered] == [api.Claimed] * 4


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (WITHOUT, "no device provider is chosen"),
        (_config("another", DEVICE_CAPABILITY), "which is another one"),
        (_config(DEVICE_PROVIDER, "cuda-linux-x86_64"), "which is another one"),
    ],
)
def test_without_permission_the_chain_is_rejected(
    tmp_path: Path, config: RextioConfig, reason: str
) -> None:
    analysis = _analyse(tmp_path, SOURCE, config)
    assert not analysis.native("m.chain")
    assert analysis.codes("m.chain") == [NOT_AUTHORISED]
    (diagnostic,) = analysis.functions["m.chain"].diagnostics
    assert reason in diagnostic.message
    assert candidate.CLAIMS_TEXT in diagnostic.message


@pytest.mark.parametrize(
    ("system", "machine"), [("Linux", "aarch64"), ("Darwin", "arm64"), ("Windows", "AMD64")]
)
def test_another_host_has_no_candidate(
    tmp_path: Path, system: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    analysis = _analyse(tmp_path, SOURCE, PERMITTED)
    assert analysis.codes("m.chain") == [NOT_AUTHORISED]
    with pytest.raises(RuntimeError, match="no CUDA candidate"):
        candidate.require_authorization(_authorization())


#: Each a function of one line (or the last of several) that is outside the candidate.
OUTSIDE_FORMS = {
    "another_operator": ("return x * w",),
    "a_bias_without_a_product": ("return x + b",),
    "no_product_first": ("return x.relu()",),
    "no_relu_first": ("return x.mean(dim=1)",),
    "add_of_two_products": ("p = x @ w", "return p + p"),
    "product_of_a_product": ("p = x @ w", "return p @ w"),
    "bias_on_the_left": ("p = x @ w", "return b + p"),
    "relu_of_a_product": ("p = x @ w", "return p.relu()"),
    "relu_twice": ("p = x @ w", "q = p + b", "r = q.relu()", "return r.relu()"),
    "mean_along_0": ("p = x @ w", "q = p + b", "r = q.relu()", "return r.mean(dim=0)"),
    "mean_by_position": ("p = x @ w", "q = p + b", "r = q.relu()", "return r.mean(1)"),
    "mean_with_keepdim": (
        "p = x @ w",
        "q = p + b",
        "r = q.relu()",
        "return r.mean(dim=1, keepdim=False)",
    ),
    "nested_sum": ("return x @ w + b",),
    "nested_call": ("p = x @ w", "q = p + b", "return q.relu().mean(dim=1)"),
    "function_relu": ("p = x @ w", "q = p + b", "return torch.relu(q)"),
    "function_matmul": ("return torch.matmul(x, w)",),
    "vector": ("return x @ b",),
    "linear": ("return F.linear(x, w, b)",),
    "softmax": ("return x.softmax(dim=1)",),
    "unknown_function": ("return torch.mm(x, w)",),
    "in_place": ("return x.relu_()",),
    "scalar": ("return x + 1.0",),
    "compare": ("return x == w",),
    "to_the_cpu": ("return x.cpu()",),
    "to_a_device": ('return x.to("cpu")',),
    "to_this_device": ("return x.cuda()",),
    "item": ("return b.item()",),
    "mixed_product": ("return x @ cpu",),
    "mixed_product_from_the_left": ("return cpu @ x",),
    "mixed_bias": ("p = x @ w", "return p + v"),
    "mixed_function": ("return F.linear(cpu, cpu, b)",),
    "mixed_in_another_operator": ("return cpu * x",),
}


@pytest.mark.parametrize("config", [WITHOUT, PERMITTED], ids=["without", "permitted"])
def test_everything_else_is_rejected(tmp_path: Path, config: RextioConfig) -> None:
    """With and without permission; a CPU function beside it stays native."""
    result = "TensorF32Cuda0_2D"
    text = HEADER + "".join(
        _function(name, *lines, result=result) for name, lines in OUTSIDE_FORMS.items()
    )
    text += "def on_cpu(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n    return x.relu()\n"
    analysis = _analyse(tmp_path, text, config)
    assert {name: analysis.codes(f"m.{name}") for name in OUTSIDE_FORMS} == {
        name: [OUTSIDE] for name in OUTSIDE_FORMS
    }
    assert not any(analysis.native(f"m.{name}") for name in OUTSIDE_FORMS)
    assert analysis.native("m.on_cpu")


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_chain_that_ends_early_is_not_native(tmp_path: Path, steps: int) -> None:
    """What stands between the steps has no type that a signature could name."""
    lines = ["p = x @ w", "q = p + b", "r = q.relu()"][:steps]
    for marked in ("", "@rextio.native\n"):
        function = _function("early", *lines, f"return {'pqr'[steps - 1]}", result=TYPES["x"])
        text = f"import rextio\n{HEADER}{marked}{function}"
        analysis = _analyse(tmp_path / str(bool(marked)), text, PERMITTED)
        assert not analysis.native("m.early")
        # Rextio's own codes, and only for a function that is marked to be native.
        assert bool(analysis.codes("m.early")) == bool(marked)


def test_a_foreign_or_unresolved_operand_is_not_covered() -> None:
    site = ClaimSite("binop", "@", (CUDA_2D.key, None), "", 0, 0)
    for type_key in (None, "other-plugin/array"):
        other = replace(site, operand_types=(CUDA_2D.key, type_key))
        assert isinstance(TorchPlugin().claim(other, PERMITTED), api.NotCovered)


def test_every_form_of_the_table_with_cuda_operands_has_a_declared_answer() -> None:
    """Any one operand, or all of them, on the GPU: claimed is the product and nothing else."""
    plugin = TorchPlugin()
    declared = {record.diagnostic_code for record in plugin.describe(None)}
    claimed = set()
    for operator in OPERATORS:
        for form in forms.accepted(operator):
            tensors = [
                index
                for index, argument in enumerate(form.arguments)
                if isinstance(argument, forms.Operand)
            ]
            for moved in [[index] for index in tensors] + [tensors]:
                arguments = list(form.arguments)
                for index in moved:
                    marker = arguments[index].annotation.replace("Cpu", "Cuda0_")
                    arguments[index] = forms.Operand(marker)
                site = replace(form, arguments=tuple(arguments)).site()
                result = plugin.claim(site, PERMITTED)
                if isinstance(result, api.Claimed):
                    claimed.add((site.target, site.operand_types))
                else:
                    assert isinstance(result, api.Rejected), site
                    assert result.diagnostic.code == OUTSIDE
                    assert result.diagnostic.code in declared
    assert claimed == {("@", (CUDA_2D.key, CUDA_2D.key))}


def test_types_state_their_device() -> None:
    types = {item.key: item for item in TorchPlugin().type_vocabulary()}
    for tensor_type in CUDA_TYPES:
        metadata = types[tensor_type.key].device_value_metadata
        assert metadata is not None
        assert (metadata.logical_device, metadata.backend) == ("gpu:0", "cuda")
        assert (metadata.dtype, metadata.rank) == ("float32", tensor_type.rank)
        assert metadata.static_shape == ()
    assert candidate.device_metadata(CUDA_1D) != candidate.device_metadata(CUDA_2D)


# Lowering


def _authorization(**changes: object) -> DeviceLoweringAuthorization:
    facts: dict[str, object] = {
        "provider_id": DEVICE_PROVIDER,
        "capability_id": DEVICE_CAPABILITY,
        "logical_device": "gpu:0",
        "backend": "cuda",
        "runtime": "libtorch",
        "reuse_domain_runtime": True,
        "features": ("inference", "no-grad"),
        "layouts": ("strided",),
        "memory_spaces": ("device",),
        "artifact_profile_sha256": "0" * 64,
    }
    return DeviceLoweringAuthorization(**{**facts, **changes})  # type: ignore[arg-type]


def _lower(authorization: DeviceLoweringAuthorization | None) -> str:
    site = ClaimSite("binop", "@", (CUDA_2D.key, CUDA_2D.key), "", 0, 0)
    claimed = TorchPlugin().claim(site, PERMITTED)
    assert isinstance(claimed, api.Claimed)
    context = LoweringContext(
        operands=("x", "w"),
        target_language="rust",
        fresh_name=str,
        device_authorization=authorization,
    )
    site = replace(site, rule_id=claimed.rule_id, result_type=claimed.result_type)
    return TorchPlugin().lower(site, context).rust


def test_lowering_under_permission() -> None:
    expected = "rxt_torch::ops::matmul(rxt_torch::Scope::Operation, &x, &w)?"
    assert _lower(_authorization()) == expected


@pytest.mark.parametrize(
    "changes",
    [
        None,
        {"provider_id": "another"},
        {"capability_id": "cuda-linux-x86_64"},
        {"backend": "rocm"},
        {"runtime": "cuda-driver"},
        {"features": ("inference",)},
        {"layouts": ()},
        {"memory_spaces": ()},
    ],
)
def test_no_lowering_without_permission(changes: Mapping[str, object] | None) -> None:
    with pytest.raises(ValueError, match="permission"):
        _lower(None if changes is None else _authorization(**changes))


# Generation


def _generated(root: Path) -> dict[str, str]:
    crate = root / ".rextio" / "generated" / "rust" / "src" / "lib.rs"
    return functions(crate.read_text(encoding="utf-8")) if crate.is_file() else {}


def test_generated_under_a_synthetic_probe(tmp_path: Path) -> None:
    """Rextio's own way: the provider runs the probe and permits, the plugin lowers."""
    project.write(tmp_path, Environment.current(), project.SYNTHETIC)
    assert main(["generate", str(tmp_path), "--quiet"]) == 0
    text = _generated(tmp_path)["chain__chain"]
    assert generated.unexpected_calls(text) == []
    assert [path for path in generated.calls(text) if "ops::" in path] == generated.operations()
    assert "TensorType::new" not in text
    lock = tmp_path / ".rextio" / "generated" / "rust" / "device-provider.lock.json"
    plan = json.loads(lock.read_text(encoding="utf-8"))["device_provider"]
    assert plan["capability"]["certification_tier"] == "build-only"
    assert plan["report"]["support_claim"] is False


ON_CPU = f"{HEADER}def on_cpu(x: TensorF32Cpu2D) -> TensorF32Cpu2D:\n    return x.relu()\n"


def test_generated_beside_functions_on_the_cpu(tmp_path: Path) -> None:
    project.write(tmp_path, Environment.current(), project.SYNTHETIC)
    (tmp_path / "other.py").write_text(ON_CPU, encoding="utf-8")
    assert main(["generate", str(tmp_path), "--quiet"]) == 0
    texts = _generated(tmp_path)
    assert set(texts) == {"chain__chain", "other__on_cpu"}
    assert "on_cuda0" not in texts["other__on_cpu"]


def test_generated_without_a_provider(tmp_path: Path) -> None:
    """The chain stays on Python and does not keep the rest of the project there."""
    write_project(tmp_path, {"chain": SOURCE, "other": ON_CPU})
    assert main(["generate", str(tmp_path), "--quiet"]) == 0
    assert set(_generated(tmp_path)) == {"other__on_cpu"}


def test_a_function_without_operations_needs_a_provider_too(tmp_path: Path) -> None:
    """Rextio counts its signature: no code is generated, which docs/cuda.md says."""
    text = f"{HEADER}def ignored(x: TensorF32Cuda0_2D) -> int:\n    return 1\n"
    write_project(tmp_path, {"ignored": text})
    assert main(["generate", str(tmp_path), "--quiet"]) == 1
    assert _generated(tmp_path) == {}


@pytest.mark.parametrize(
    ("probe", "reason"),
    [
        (replace(project.SYNTHETIC, driver_version=11080), "an old driver"),
        (project.Probe("synthetic", 13000, (project.Device(0, "no such", 3, 5),)), "an old GPU"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_the_provider_has_the_last_word(tmp_path: Path, probe: project.Probe, reason: str) -> None:
    project.write(tmp_path, Environment.current(), probe)
    assert main(["generate", str(tmp_path), "--quiet"]) == 1
    assert _generated(tmp_path) == {}


def test_the_probe_speaks_as_the_provider_expects() -> None:
    report = parse_probe_report(project.SYNTHETIC.report())
    assert report.status == "probe-complete"
    assert [device.sm for device in report.devices] == ["sm_80"]


def test_the_operations_follow_from_the_types() -> None:
    assert [path.rpartition(":")[2] for path in generated.operations()] == [
        "matmul",
        "add",
        "relu",
        "mean",
    ]


# Inspection of the generated Rust


def test_the_runtime_moves_nothing_but_lazy_cpu_inputs() -> None:
    (move,) = generated.moves("\n".join(helpers()))
    assert move.function == "materialise"
    assert move.cpu_only


@pytest.mark.parametrize(
    "call",
    [
        "x.to_device(tch::Device::Cpu)",
        "x.f_to(device)?",
        "x\n        .f_copy_(&y)?",
        "tch::Tensor::f_internal_to_copy(x)",
        "x.to_kind(tch::Kind::Float)",
        "x.pin_memory(device)",
    ],
)
def test_a_move_in_the_runtime_is_seen(call: str) -> None:
    runtime = "\n".join(helpers())
    planted = runtime.replace("pub fn matmul(", f"fn planted() {{ {call}; }}\npub fn matmul(")
    found = [move for move in generated.moves(planted) if not move.cpu_only]
    assert {move.function for move in found} == {"planted"}


def test_a_macro_argument_is_seen() -> None:
    planted = "\n".join(helpers()).replace("relu => Relu, f_relu();", "relu => Relu, f_cpu();")
    assert [move for move in generated.moves(planted) if not move.cpu_only]


def test_without_its_guard_the_copy_counts() -> None:
    runtime = "\n".join(helpers())
    planted = runtime.replace("let fused = on_cpu && ", "let fused = ")
    assert planted != runtime
    assert [move.cpu_only for move in generated.moves(planted)] == [False]


def test_words_in_strings_and_comments_are_no_calls() -> None:
    text = """fn f() { g("x.to(y)"); h('"'); i(".cpu()"); } // x.cpu()"""
    assert generated.moves(text) == []
    assert len(generated.moves(text + "\nfn g() { x.cpu(); }")) == 1


def test_an_unexpected_call_is_seen() -> None:
    text = "fn chain__chain() {\n    let x = rxt_torch::ops::matmul(a, b)?;\n    elsewhere(x)\n}"
    assert generated.unexpected_calls(text) == ["elsewhere"]


# What the commands refuse


def test_a_cpu_wheel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "version.py").write_text("cuda = None\n")
    torch = Torch("2.11.0+cpu", str(tmp_path))
    with pytest.raises(CliError, match="CUDA wheel"):
        project.cuda_version(replace(Environment.current(), torch=torch))
    with pytest.raises(CliError, match="CUDA wheel"):
        project.cuda_version(replace(Environment.current(), torch=None))


def test_another_host_is_refused() -> None:
    with pytest.raises(CliError, match="no CUDA candidate for Linux aarch64"):
        project.cuda_version(replace(Environment.current(), machine="aarch64"))


def test_a_missing_provider_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project.versions, "DEVICE_PROVIDER", "no-such-distribution")
    with pytest.raises(CliError, match="device provider is not installed"):
        project.require_provider()
