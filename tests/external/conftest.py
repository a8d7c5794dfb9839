"""What each suite found, once for all tests of this folder."""

from __future__ import annotations

import pytest
from support.native import NativeProject

from external import onnx_nodes, op_db
from external.calls import Case, Outcome, Suite


@pytest.fixture(scope="session")
def op_db_outcomes(
    native_project: NativeProject, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[Case, Outcome]]:
    suite = Suite(native_project, op_db.cases(), tmp_path_factory.mktemp("op-db"))
    return list(suite.outcomes())


@pytest.fixture(scope="session")
def onnx_outcomes(
    native_project: NativeProject, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[Case, Outcome]]:
    suite = Suite(native_project, onnx_nodes.cases(), tmp_path_factory.mktemp("onnx"))
    return list(suite.outcomes())
