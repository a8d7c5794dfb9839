"""The CUDA candidate's commands: compiled and never loaded here; the harness needs a GPU."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
import torch
from support.native import CACHE, run

from rextio_torch.cuda import chain, compare
from rextio_torch.runtime.source_mark import marked_source_ids

FOLDER = CACHE / "native" / "cuda-candidate"
CUDA = [sys.executable, "-m", "rextio_torch.cuda"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the command once; return the evidence file and what was printed."""
    output = tmp_path_factory.mktemp("evidence") / "evidence.json"
    done = run([*CUDA, "build", FOLDER, "--output", output])
    return output, done.stdout


def test_the_candidate_compiles_and_is_not_loaded(built: tuple[Path, str]) -> None:
    found = json.loads(built[0].read_text(encoding="utf-8"))
    assert found["ok"]
    assert found["support_claim"] is False
    assert found["certification_ready"] is False
    assert found["probe"] == "synthetic"
    assert found["versions"]["torch_cuda"]
    assert found["provider"]["certification_tier"] == "build-only"
    assert found["authorization"]["capability_id"] == "cuda-libtorch-linux-x86_64"
    assert found["moves"]["unexpected_calls_of_the_function"] == []
    assert found["moves"]["calls_in_the_runtime"] == []
    assert all(found["checks"].values())
    assert "the module was not loaded" in found["checks"]
    (module,) = (FOLDER / ".rextio" / "build" / "python").glob("_rextio_native*.so")
    assert module.name == found["module"]["file"]
    assert marked_source_ids(module) == [found["module"]["source_id"]]


def test_the_evidence_is_readable(built: tuple[Path, str]) -> None:
    text = built[1]
    assert "support_claim=false, certification_ready=false" in text
    assert "rxt_torch::ops::matmul" in text
    assert "yes  nothing moves between devices" in text
    assert "NO " not in text


def test_the_harness_needs_a_gpu(tmp_path: Path) -> None:
    """Also where there is one: it is hidden from the process."""
    output = tmp_path / "evidence.json"
    command = [*CUDA, "run", tmp_path / "candidate", "--output", output]
    done = run(command, check=False, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1
    assert "there is no CUDA device" in done.stderr
    assert not output.exists()
    assert not (tmp_path / "candidate").exists()
    done = run([*command, "--json"], check=False, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1
    assert json.loads(done.stdout)["ok"] is False


# The comparison of the harness, on the CPU: with itself, and with chains that are wrong.


def test_a_chain_equals_itself() -> None:
    cases = compare.measure(chain.chain, chain.chain, "cpu")
    assert len(cases) == 2 * len(compare.SHAPES) + 1
    assert all(case["bit_equal"] and case["same_nan"] for case in cases)


def _rounded(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return chain.chain(x, weight, bias) * (1 + 2**-23)


def _without_nan(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return chain.chain(x, weight, bias).nan_to_num(0.0)


def _other_dtype(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return chain.chain(x, weight, bias).double()


@pytest.mark.parametrize("wrong", [_rounded, _without_nan, _other_dtype])
def test_a_wrong_chain_is_seen(wrong: compare.Chain) -> None:
    cases = compare.measure(wrong, chain.chain, "cpu")
    assert not all(case["bit_equal"] for case in cases)
    assert all(math.isfinite(case["largest_difference"]) for case in cases)


def test_transfers_are_told_from_copies_on_the_device() -> None:
    seen = {
        "ampere_sgemm_32x32": 1,
        "Memcpy DtoD (Device -> Device)": 1,
        "Memset (Device)": 1,
        "Memcpy HtoD (Pageable -> Device)": 1,
        "Memcpy DtoH (Device -> Pageable)": 2,
        "Memcpy PtoP (Device -> Device)": 1,
    }
    assert [name[:11] for name in compare.transfers(seen)] == [
        "Memcpy HtoD",
        "Memcpy DtoH",
        "Memcpy PtoP",
    ]
