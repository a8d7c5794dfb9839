"""`python -m rextio_torch.cuda`: compile the candidate anywhere, or run it on a GPU."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from rextio_torch.cli.commands import AS_JSON, reporting
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.files import write_atomically
from rextio_torch.cli.progress import Display
from rextio_torch.cuda import evidence, harness
from rextio_torch.cuda.candidate import CLAIMS_TEXT

_PATH = click.Path(path_type=Path)
_FOLDER = click.argument("folder", type=_PATH, default="cuda-candidate")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """The build-only CUDA candidate: support_claim=false, certification_ready=false."""


@cli.command()
@_FOLDER
@click.option("--output", type=_PATH, help="Write the evidence to this file, as JSON.")
@AS_JSON
@reporting
def build(folder: Path, output: Path | None, as_json: bool) -> None:
    """Generate and compile the candidate in FOLDER under an invented GPU; never load it.

    Needs torch's CUDA wheel, no GPU. Exits with 1 if anything is not as it should be.
    """
    display = Display(Console(stderr=True))
    found = evidence.build_only(folder, Environment.current(), display)
    _show(found, output, as_json=as_json)


@cli.command()
@_FOLDER
@click.option(
    "--output", type=_PATH, default="cuda-evidence.json", help="Where to write the evidence."
)
@click.option("--probe", type=_PATH, help="The provider's own probe; else torch is asked.")
@AS_JSON
@reporting
def run(folder: Path, output: Path, probe: Path | None, as_json: bool) -> None:
    """Build the candidate in FOLDER for the GPU of this machine and run it beside eager PyTorch.

    Exits with 1 where there is no such GPU, and where the results differ. Whatever it finds, it
    changes no claim of support.
    """
    display = Display(Console(stderr=True))
    found = harness.run(folder, Environment.current(), display, probe)
    _show(found, output, as_json=as_json)


def _show(found: Mapping[str, Any], output: Path | None, *, as_json: bool) -> None:
    text = json.dumps(found, indent=2)
    if output is not None:
        write_atomically(output, text + "\n")
    if as_json:
        click.echo(text)
    else:
        click.echo("\n".join(_lines(found)))
        if output is not None:
            click.echo(f"evidence: {output}")
    if not found["ok"]:
        raise SystemExit(1)


def _lines(found: Mapping[str, Any]) -> list[str]:
    """Return the evidence as text."""
    versions, provider, module = found["versions"], found["provider"], found["module"]
    lines = [
        f"CUDA candidate, build-only: {CLAIMS_TEXT}",
        f"provider   {provider['provider_id']} {provider['provider_version']}, "
        f"{provider['capability_id']}, {provider['certification_tier']}; probe: {found['probe']}",
        f"versions   torch {versions['torch']} (CUDA {versions['torch_cuda']}), tch "
        f"{versions['tch']}, Python {versions['python']}, rextio {versions['rextio']}, "
        f"{versions['rustc']}",
        f"module     {module['file']}, sha256 {module['sha256'][:16]}, links "
        f"{', '.join(module['links'])}",
        "generated",
        *(f"    {line}" for line in found["generated_function"]),
    ]
    for move in found["moves"]["calls_for_cpu_inputs_only"]:
        lines.append(f"copies CPU inputs only: {move['function']}: {move['line']}")
    for move in found["moves"]["calls_in_the_runtime"]:
        lines.append(f"moves a tensor: {move['function']}: {move['line']}")
    for case in found.get("cases", ()):
        how = "bit-equal" if case["bit_equal"] else f"differs by {case['largest_difference']}"
        lines.append(f"case       {case['case']}: {how}")
    for who, ran in found.get("kernels", {}).items():
        lines += [f"kernel     {who}: {count} x {name}" for name, count in ran.items()]
    lines += [f"{'yes' if held else 'NO ':<3}  {what}" for what, held in found["checks"].items()]
    return lines


if __name__ == "__main__":
    cli.main(prog_name="python -m rextio_torch.cuda")
