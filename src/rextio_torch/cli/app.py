"""The commands: arguments in, text or JSON out, an exit status."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from rextio_torch import versions
from rextio_torch.cli import build_text
from rextio_torch.cli import cache as cache_module
from rextio_torch.cli import doctor as doctor_module
from rextio_torch.cli.build import BuildResult
from rextio_torch.cli.build import build as build_project
from rextio_torch.cli.commands import AS_JSON, print_json, reporting
from rextio_torch.cli.environment import Environment
from rextio_torch.cli.errors import CliError, quoted
from rextio_torch.cli.files import human_size
from rextio_torch.cli.inputs import input_options
from rextio_torch.cli.layout import cache_root, require_project
from rextio_torch.cli.module import check_module
from rextio_torch.cli.progress import Display
from rextio_torch.cli.project import REXTIO_FILE, initialise
from rextio_torch.cli.toolchain import Toolchain

if TYPE_CHECKING:
    from rextio_torch.explain.model import Explanation

_PATH = click.Path(path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(versions.__version__, prog_name="rextio-torch")
@click.pass_context
def cli(context: click.Context) -> None:
    """Turn typed PyTorch inference functions into native code, as a Rextio plugin."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        context.color = False


@cli.command()
@click.argument("path", type=_PATH, default=".")
@click.option("--force", is_flag=True, help="Replace a build folder that the project chose itself.")
@AS_JSON
@reporting
def init(path: Path, force: bool, as_json: bool) -> None:
    """Make PATH a Rextio project that builds and rebuilds fast.

    Enables the plugin and a sufficient timeout in rextio.toml, and gives cargo a build folder of
    this project, interpreter and torch. Keeps what is there; safe to run again.
    """
    changes = initialise(path, Environment.current(), force=force)
    if as_json:
        print_json({"project": str(path.resolve()), "changes": changes})
        return
    for line in changes or [f"{path.resolve()}: nothing to change"]:
        click.echo(line)
    if changes:
        click.echo(f"ready: rextio-torch build {quoted(path)}")


@cli.command("explain")
@click.argument("path", type=_PATH, default=".")
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 1 if a function with tensor annotations is not native.",
)
@click.option("--show", is_flag=True, help="Show what functions were rewritten to.")
@click.option(
    "--as-written", is_flag=True, help="Explain what `rextio build` makes of it, without rewriting."
)
@AS_JSON
@reporting
def explain_command(path: Path, strict: bool, show: bool, as_written: bool, as_json: bool) -> None:
    """Explain which functions of PATH are native, and what keeps the others on Python.

    PATH is a file, or a folder with a project or in one. Nothing is built and nothing is written:
    functions are rewritten in a copy, as `rextio-torch build` does, and whether one is native is
    what `rextio check` and `rextio generate` say of that.
    """
    # Imported here: the parser is large, and no other command needs it.
    from rextio_torch.cli import explain_text
    from rextio_torch.cli.explain import explain_path

    answer = explain_path(path, Environment.current(), normalize=not as_written)
    lacking = _lacking(answer) if strict else []
    if as_json:
        print_json(answer.to_dict(), ok=not lacking)
    else:
        width = min(shutil.get_terminal_size().columns, 100)
        source = explain_text.source_lines(answer)
        for line in explain_text.lines(answer, width, source=source, show=show):
            click.echo(line)
    _refuse(lacking)


def _lacking(result: Explanation | BuildResult) -> list[str]:
    """Say what is missing where every function is required to be native."""
    named = [
        ("not native", result.not_native),
        ("native, but with a default that is no tensor", result.wrong_defaults),
    ]
    return [f"{what}: {', '.join(names)}" for what, names in named if names]


def _refuse(lacking: list[str]) -> None:
    for text in lacking:
        click.echo(f"error: {text}", err=True)
    if lacking:
        raise SystemExit(1)


@cli.command("build")
@click.argument("path", type=_PATH, default=".")
@click.option(
    "--require-native",
    is_flag=True,
    help="Exit with 1 if a function with tensor annotations is not native. Nothing is built if one "
    "that Rextio accepts cannot be.",
)
@AS_JSON
@reporting
def build_command(path: Path, require_native: bool, as_json: bool) -> None:
    """Build PATH and list which functions are native.

    This is `rextio build` with more around it: it compiles the dependencies first, with progress,
    keeps other builds of this project out, and checks that the module it gives was built from this
    source. A function that stops Rextio or the compiler stays on Python, and the rest is built.
    """
    display = Display(Console(stderr=as_json))
    result = build_project(path, Environment.current(), display, require_native=require_native)
    lacking = _lacking(result) if require_native else []
    if as_json:
        print_json(result.to_dict(), ok=not lacking)
    else:
        for line in build_text.lines(result):
            click.echo(line)
    _refuse(lacking)


@cli.command("wheel")
@click.argument("path", type=_PATH, default=".")
@click.option("--name", help="The distribution's name, if pyproject.toml has none.")
@click.option("--version", help="Its version.")
@click.option("--out", type=_PATH, help="The folder of the wheel; PATH/wheelhouse if left out.")
@AS_JSON
@reporting
def wheel_command(path: Path, as_json: bool, **given: Any) -> None:
    """Make a wheel of PATH that can be installed beside others.

    Builds first where that is needed. The wheel requires torch and nothing else that PATH does not:
    no Rust, no Rextio. Name, version and the like are those of pyproject.toml.
    """
    from rextio_torch.cli import wheel as wheel_module

    display, environment = Display(Console(stderr=True)), Environment.current()
    result = wheel_module.make_wheel(path, wheel_module.Options(**given), environment, display)
    if as_json:
        print_json(result.to_dict())
        return
    click.echo(f"wheel: {result.wheel} (source {result.source_id[:12]})")
    click.echo(f"imports: {', '.join(result.content.top_level)}")
    click.echo(f"requires: {', '.join(result.requires)}")
    for name in result.content.missing:
        click.echo(f"note: {name} is imported and not in the wheel")
    click.echo(f"use it: pip install {quoted(result.wheel)}")


@cli.command("verify")
@click.argument("path", type=_PATH, required=False)
@click.option("--function", "functions", multiple=True, help="Only this function: module.name.")
@input_options
@click.option(
    "--engine",
    "engines",
    multiple=True,
    help="Only this engine: libtorch, fused, or fused-avx512, fused-avx2, fused-portable.",
)
@click.option("--case", help="Only the case of this name, as a failure shows it.")
@click.option("--save", type=_PATH, help="Keep inputs and eager's results in this file.")
@click.option(
    "--check",
    "bundle",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Check the installed module, or that of PATH, against a file of --save.",
)
@click.option("--no-build", is_flag=True, help="Refuse a module that is not of this source.")
@AS_JSON
@reporting
def verify_command(
    path: Path | None, bundle: Path | None, no_build: bool, as_json: bool, **given: Any
) -> None:
    """Run each native function of PATH against its own Python source.

    Builds first where that is needed. Inputs are made for the function's shapes, in many layouts,
    with NaN, infinities, signed zeros and denormal numbers among them, and both engines run, with
    every instruction set of this machine. Exits with 1 on any difference, and where no inputs
    could be made for a function.
    """
    from rextio_torch.cli import verify as verify_module

    options = verify_module.Options(build=not no_build, **given)
    display, environment = Display(Console(stderr=as_json)), Environment.current()
    if bundle is None:
        result = verify_module.verify(path or Path(), options, environment, display)
    elif options.save or options.shapes or options.values or options.inputs:
        raise click.UsageError("--check takes its inputs from the file")
    else:
        result = verify_module.check_bundle(bundle, path, options, environment, display)
    if as_json:
        print_json(result.to_dict(), ok=not result.failed)
    else:
        for line in verify_module.lines(result):
            click.echo(line)
    if result.failed:
        raise SystemExit(1)


@cli.command("bench")
@click.argument("function")
@click.option("--project", type=_PATH, help="The project, if it is not this folder.")
@input_options
@click.option(
    "--size",
    "sizes",
    type=click.IntRange(min=1),
    multiple=True,
    default=(64,),
    show_default=True,
    help="The size of every dimension that no --shape gives. Several: one after another.",
)
@click.option(
    "--threads", type=click.IntRange(min=1), help="Threads; those of torch if it is left out."
)
@click.option("--plot", type=_PATH, help="Draw the times into this file.")
@AS_JSON
@reporting
def bench_command(function: str, plot: Path | None, as_json: bool, **given: Any) -> None:
    """Time FUNCTION natively against eager PyTorch.

    FUNCTION is module.function of the project in this folder, or file.py:function. Builds first
    where that is needed, and compares the results before it times anything.
    """
    from rextio_torch.cli import bench as bench_module

    if plot is not None:
        bench_module.require_plotting()
    display, environment = Display(Console(stderr=as_json)), Environment.current()
    result = bench_module.bench(function, bench_module.Options(**given), environment, display)
    if plot is not None:
        bench_module.draw(result, plot)
    if as_json:
        print_json(result.to_dict())
    else:
        for line in bench_module.lines(result):
            click.echo(line)


@cli.command()
@click.argument("path", type=_PATH, required=False)
@AS_JSON
@reporting
def doctor(path: Path | None, as_json: bool) -> None:
    """Check what a native build needs, with the repair of what is wrong.

    With PATH (or in a project's folder) also that project's build folder and the module of its last
    build. Exits with 1 if a native build would fail or that module does not load.
    """
    if path is None and Path(REXTIO_FILE).is_file():
        path = Path()
    project = None if path is None else require_project(path)
    shell = Environment.current()
    checks = doctor_module.run_checks(Toolchain.of(shell.for_building(), project), shell)
    failed = doctor_module.failures(checks)
    present = [] if project is None else check_module(project, shell)
    checks += present
    unloadable = doctor_module.failures(present)
    if as_json:
        print_json(
            {"checks": [check.to_dict() for check in checks]}, ok=not failed and not unloadable
        )
    else:
        for line in doctor_module.lines(checks):
            click.echo(line)
        warned = sum(check.status == "warn" for check in checks)
        if failed:
            click.echo(f"a native build would fail: {len(failed)} of {len(checks)} checks")
        else:
            plural = "" if warned == 1 else "s"
            click.echo(
                "a native build can run" + (f" ({warned} warning{plural})" if warned else "")
            )
        if unloadable:
            click.echo("the last build does not load: its functions run in Python")
    raise SystemExit(1 if failed or unloadable else 0)


@cli.group(invoke_without_command=True)
@AS_JSON
@reporting
def cache(as_json: bool) -> None:
    """List the build folders of this machine: size, project, Python, torch, last use."""
    if click.get_current_context().invoked_subcommand is not None:
        if as_json:
            raise click.UsageError("--json belongs after the subcommand")
        return
    root = cache_root(Environment.current().variables)
    found = cache_module.entries(root)
    if as_json:
        total = sum(entry.size for entry in found)
        folders = [entry.to_dict() for entry in found]
        print_json({"root": str(root), "bytes": total, "folders": folders})
        return
    for line in cache_module.lines(root, found):
        click.echo(line)


@cache.command("clear")
@click.option("--project", type=_PATH, help="Only the folders of this project.")
@click.option("--all", "everything", is_flag=True, help="Also the warm copies of dependencies.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@AS_JSON
@reporting
def cache_clear(project: Path | None, everything: bool, yes: bool, as_json: bool) -> None:
    """Remove build folders; the next build of their projects is slow once."""
    root = cache_root(Environment.current().variables)
    chosen = cache_module.select(cache_module.entries(root), project, everything=everything)
    if as_json and not yes:
        raise CliError(
            "with --json nothing can be asked",
            expected="--yes beside --json",
            found="--json alone",
            repair="rextio-torch cache clear --json --yes",
        )
    if not chosen and not as_json:
        click.echo(f"{root}: nothing to remove")
        return
    size = human_size(sum(entry.size for entry in chosen))
    if not yes:
        for entry in chosen:
            click.echo(f"{human_size(entry.size):>8}  {entry.folder}")
        if not click.confirm(f"remove {len(chosen)} folders, {size}?"):
            click.echo("nothing removed")
            raise SystemExit(1)
    waiting = Display(Console(stderr=True)).waiting("a build that is running")
    freed = cache_module.clear(chosen, waiting)
    if as_json:
        print_json({"bytes": freed, "folders": [str(entry.folder) for entry in chosen]})
    else:
        click.echo(f"removed {len(chosen)} folders, {human_size(freed)} freed")


def run() -> None:
    """Run the command line of this process."""
    try:
        cli.main(prog_name="rextio-torch", standalone_mode=True)
    except BrokenPipeError:
        # The reader went away (`| head`): nothing more to say.
        sys.stderr.close()
        raise SystemExit(1) from None
