"""What Rextio is told about the plugin: rule records, coverage, types, crates, diagnostics."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from rextio.config.schema import PluginConfig
from rextio.plugins.api import (
    CRATE_PIN_PATTERN,
    PLUGIN_DIAGNOSTIC_CODE_PATTERN,
    plugin_code_segment,
)
from rextio.plugins.loader import PluginError, load_plugin_registry
from rextio.targets.models import TargetSpec
from support import forms
from support.analysis import EntryPoint
from syrupy.assertion import SnapshotAssertion

from rextio_torch.analysis.decide import Rejection, decide
from rextio_torch.derive import records
from rextio_torch.ops.model import Operator
from rextio_torch.ops.table import OPERATORS
from rextio_torch.ops.tensor_types import ALL_TYPES
from rextio_torch.plugin import TorchPlugin
from rextio_torch.runtime.loader import helpers
from rextio_torch.versions import PLUGIN_ID

by_operator = pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.id)


def _registry(plugin: TorchPlugin) -> object:
    return load_plugin_registry(
        PluginConfig(enabled=(PLUGIN_ID,)),
        TargetSpec(language="rust"),
        entry_points=[EntryPoint(plugin)],
    )


def test_rextio_loads_the_plugin() -> None:
    """Rextio's own checks of a plugin, on everything that it says about itself."""
    registry = _registry(TorchPlugin())
    (active,) = registry.active
    assert active.id == PLUGIN_ID
    assert active.lowering_provided
    assert registry.rule_records == records.rule_records()
    assert {binding.plugin_type.key for binding in registry.types} == {
        tensor_type.key for tensor_type in ALL_TYPES
    }


def test_rextio_finds_the_plugin_by_its_entry_point() -> None:
    registry = load_plugin_registry(PluginConfig(enabled=(PLUGIN_ID,)), TargetSpec(language="rust"))
    assert [plugin.id for plugin in registry.active] == [PLUGIN_ID]


def test_rextio_refuses_a_broken_plugin() -> None:
    """The check above can fail."""

    class Broken(TorchPlugin):
        def describe(self, config: object) -> tuple[object, ...]:
            return (*super().describe(config), *super().describe(config)[:1])

    with pytest.raises(PluginError):
        _registry(Broken())


def test_record_ids() -> None:
    identifiers = [record.id for record in records.rule_records()]
    assert len(set(identifiers)) == len(identifiers)
    assert all(re.fullmatch(rf"{PLUGIN_ID}/[a-z_0-9]+/\w+", item) for item in identifiers)
    assert all(record.provider == PLUGIN_ID for record in records.rule_records())
    assert all(record.stability == "experimental" for record in records.rule_records())


@by_operator
def test_records_of_a_row(operator: Operator) -> None:
    """One native record for each kind of site, and one with the row's code."""
    mine = [r for r in records.rule_records() if r.id.startswith(f"{PLUGIN_ID}/{operator.id}/")]
    mine = [r for r in mine if not r.id.endswith("_cuda0")]
    native = {record.id: record for record in mine if record.outcome == "native"}
    kinds = {spelling.site_kind for spelling in operator.spellings}
    assert set(native) == {records.rule_id(operator, kind) for kind in kinds}
    for kind in kinds:
        record = native[records.rule_id(operator, kind)]
        assert record.scope.kind == kind
        labels = [s.label for s in operator.spellings if s.site_kind == kind]
        assert record.scope.pattern.split(" | ") == labels
        assert record.diagnostic_code is None
    (rejecting,) = (record for record in mine if record.outcome == "reject")
    assert rejecting.diagnostic_code == operator.diagnostic.code
    labels = {spelling.label for spelling in operator.spellings}
    assert set(rejecting.scope.pattern.split(" | ")) == labels
    assert rejecting.scope.kind in kinds
    assert rejecting.constraint == operator.diagnostic.why
    assert operator.diagnostic.instead in rejecting.guidance
    assert len(mine) == len(kinds) + 1


def test_records_of_the_cuda_candidate(snapshot: SnapshotAssertion) -> None:
    """Four steps and two codes, each said to be build-only."""
    mine = [r for r in records.rule_records() if "cuda0" in r.id]
    steps = [record for record in mine if record.outcome == "native"]
    assert [record.scope.kind for record in steps] == ["call", "binop", "binop", "call"]
    for record in mine:
        assert "support_claim=false, certification_ready=false" in (
            record.guidance if record in steps else record.constraint
        )
    assert {record.id: record.to_dict() for record in mine} == snapshot


def test_every_code_is_declared() -> None:
    declared = [record.diagnostic_code for record in records.rule_records()]
    for operator in OPERATORS:
        code = operator.diagnostic.code
        assert declared.count(code) == 1
        match = PLUGIN_DIAGNOSTIC_CODE_PATTERN.match(code)
        assert match is not None
        assert match[1] == plugin_code_segment(PLUGIN_ID)


def test_records_say_what_is_accepted(snapshot: SnapshotAssertion) -> None:
    assert {operator.id: records.signature_texts(operator) for operator in OPERATORS} == snapshot


def test_coverage() -> None:
    coverage = TorchPlugin().covers()
    assert coverage.packages == ("rextio_torch", "torch")
    assert coverage.modules == ("rextio_torch.in_place", "torch", "torch.nn.functional")
    assert set(coverage.symbols) == {
        spelling.target
        for operator in OPERATORS
        for spelling in operator.spellings
        if spelling.kind == "function"
    }
    assert list(coverage.symbols) == sorted(coverage.symbols)


def test_type_vocabulary(snapshot: SnapshotAssertion) -> None:
    types = TorchPlugin().type_vocabulary()
    assert [item.key for item in types] == [tensor_type.key for tensor_type in ALL_TYPES]
    for item in types:
        assert item.helpers == helpers()
        assert item.is_resident == (not item.annotations) == ("after" in item.key)
        assert (item.device_value_metadata is None) == ("-cpu-" in item.key)
    assert {
        item.key: (item.annotations, item.rust_type, item.conversion) for item in types
    } == snapshot


def test_crates_are_pinned() -> None:
    crates = {crate.name: crate for crate in TorchPlugin().crate_dependencies()}
    assert set(crates) == {"tch"}
    assert crates["tch"].features == ("python-extension",)
    assert all(CRATE_PIN_PATTERN.match(crate.version) for crate in crates.values())


# Diagnostics


def _kind_of_reason(reason: str) -> str:
    """The reason without its particulars."""
    reason = re.sub(r"(?:Tensor\w+(?: or )?)+", "…", reason)
    return re.sub(
        r"`[^`]*`|\([^)]*\)|\d+|only .*|got .*", "…", reason.replace("arguments", "argument")
    )


def _diagnostics(operator: Operator) -> Iterator[tuple[str, str]]:
    """Yield the first call for each kind of reason, and the reason."""
    seen = set()
    for form in forms.rejected(operator):
        decision = decide(form.site())
        assert isinstance(decision, Rejection)
        kind = _kind_of_reason(decision.reason)
        if kind not in seen:
            seen.add(kind)
            types = ", ".join(argument.type for argument in form.arguments)
            yield f"{form.expression}  # {types}", decision.reason


@by_operator
def test_diagnostic_of_a_row(operator: Operator, snapshot: SnapshotAssertion) -> None:
    """One whole diagnostic, and one call and its reason for each kind of reason."""
    reasons = dict(_diagnostics(operator))
    first = next(iter(reasons.values()))
    diagnostic = records.rejection_diagnostic(operator, first)
    assert diagnostic.code == operator.diagnostic.code
    assert diagnostic.severity == "error"
    assert {
        "message": diagnostic.message,
        "suggestion": diagnostic.suggestion,
        "reasons": reasons,
    } == snapshot


def test_all_kinds_of_reason_are_shown() -> None:
    kinds = {
        _kind_of_reason(reason) for operator in OPERATORS for _, reason in _diagnostics(operator)
    }
    assert kinds == {
        "… must be …, …",
        "… must be a literal given by keyword, …",
        "… must be a literal, …",
        "… is given twice",
        "… is missing",
        "… is not supported",
        "… is not supported, …",
        "it takes at most … positional argument, …",
        "operands of type … are not supported, …",
    }
