"""What Rextio's analysis says of each function, read from the report of `rextio check`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rextio_torch.versions import PLUGIN_ID


@dataclass(frozen=True)
class Blocker:
    """One reason of Rextio's own: a diagnostic, or what kept it from trying."""

    code: str
    message: str
    suggestion: str | None
    line: int
    #: In bytes of UTF-8, from 0.
    byte: int


@dataclass(frozen=True)
class Claim:
    """A site that this plugin claimed: the rule, and where it is, in bytes from 0."""

    operator: str
    result: str
    line: int
    byte: int
    end_line: int
    end_byte: int


@dataclass(frozen=True)
class Verdict:
    """How a function will run, and why."""

    qualname: str
    outcome: Literal["native", "python", "shim"]
    blockers: tuple[Blocker, ...] = ()
    claims: tuple[Claim, ...] = ()
    #: Calls back into Python (RXT075).
    callbacks: tuple[Blocker, ...] = ()
    #: A word of Rextio's for why it did not try, such as `explicit-exemption`.
    skipped: str | None = None


#: Rextio says nothing of functions in functions, in nested classes and under `if`.
UNSEEN = Verdict("", "python")


def verdicts(module: Mapping[str, Any]) -> dict[int, Verdict]:
    """Return the verdict of each function of a module, by the line of its name."""
    found = {}
    for data in module.get("functions", ()):
        position = (data.get("name_range") or {}).get("start") or data
        found[int(position["line"])] = _verdict(data)
    return found


def is_shim(data: Mapping[str, Any]) -> bool:
    """Whether what Rextio says of a function is Python run by a shim (RXT080)."""
    return bool(data.get("native_runtime_semantics")) or data.get("route") == "native-shim"


def is_native(data: Mapping[str, Any]) -> bool:
    """Whether Rextio runs a function as native code; it calls a shim accepted, too."""
    return _is_accepted(data) and not is_shim(data)


def _is_accepted(data: Mapping[str, Any]) -> bool:
    route = str(data.get("route", ""))
    return data.get("native_status") == "accepted" and route.startswith("native")


def _verdict(data: Mapping[str, Any]) -> Verdict:
    assessment = data.get("promotion_assessment") or {}
    diagnostics = list(data.get("diagnostics", ()))
    blocking = [item for item in diagnostics if item.get("severity") == "error"]
    blocking += [item for item in assessment.get("diagnostics", ()) if item.get("kind") != "info"]
    outcome: Literal["native", "python", "shim"] = "python"
    if _is_accepted(data):
        outcome = "shim" if is_shim(data) else "native"
    return Verdict(
        qualname=str(data.get("qualname", "?")),
        outcome=outcome,
        blockers=tuple(dict.fromkeys(_blocker(i) for i in blocking if i.get("code") != "RXT080")),
        claims=tuple(map(_claim, _ours(data))),
        callbacks=tuple(_blocker(item) for item in diagnostics if item.get("code") == "RXT075"),
        skipped=assessment.get("skip_reason"),
    )


def _ours(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    claims = data.get("plugin_claims", ())
    return [claim for claim in claims if claim.get("plugin_id") == PLUGIN_ID]


def _blocker(data: Mapping[str, Any]) -> Blocker:
    return Blocker(
        code=str(data.get("code")),
        message=str(data.get("message")),
        suggestion=data.get("suggestion"),
        line=int(data.get("line") or 0),
        byte=int(data.get("column") or 0),
    )


def _claim(data: Mapping[str, Any]) -> Claim:
    return Claim(
        operator=str(data["rule_id"]).split("/")[1],
        result=str(data.get("result_type")),
        line=int(data["line"]),
        byte=int(data["column"]),
        end_line=int(data["end_line"]),
        end_byte=int(data["end_column"]),
    )
