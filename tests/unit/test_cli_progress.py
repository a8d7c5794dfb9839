"""Progress from what cargo says."""

from __future__ import annotations

import json
from io import StringIO

from cli_environment import REGISTRY, artifact
from rich.console import Console

from rextio_torch.cli import progress


def test_progress_from_what_cargo_says() -> None:
    state = progress.CargoProgress(total=4, root="root_crate")
    assert state.feed("   Compiling libc v0.2.0", 1.0) is None
    assert state.feed("   Compiling torch-sys v0.24.0", 2.0) is None
    assert state.feed("   Compiling root_crate v0.1.0", 2.0) is None
    assert state.feed(artifact(f"{REGISTRY}#libc@0.2.0", "custom-build"), 3.0) is None
    executed = {"reason": "build-script-executed", "package_id": f"{REGISTRY}#libc@0.2.0"}
    assert state.feed(json.dumps(executed), 3.0) is None
    assert state.counter == "0/4"
    # What waits for others after its build script is not what runs; torch's script is.
    assert state.current == "torch-sys (takes minutes)"
    assert state.feed(artifact(f"{REGISTRY}#libc@0.2.0"), 3.0) == "libc"
    assert state.feed(artifact(f"{REGISTRY}#libc@0.2.0"), 3.0) is None
    assert state.feed(artifact(f"{REGISTRY}#quote@1.0.0", fresh=True), 3.0) is None
    assert state.feed(artifact("path+file:///x/root_crate#0.1.0", "cdylib"), 3.0) is None
    assert (state.counter, state.fresh, list(state.running)) == ("2/4", 1, ["torch-sys"])
    for noise in ("", "error: could not compile", "{", "{}", '{"reason":"build-finished"}'):
        assert state.feed(noise, 3.0) is None
    assert state.notes == ["error: could not compile", "{"]


def test_package_names_in_cargo_s_spellings() -> None:
    assert progress.package_name(f"{REGISTRY}#anyhow@1.0.105") == "anyhow"
    assert progress.package_name("path+file:///a/some_name#0.1.0") == "some_name"
    assert progress.package_name("path+file:///a/b#name@0.1.0") == "name"


def test_plain_progress_is_never_long_silent() -> None:
    now = [0.0]
    out = StringIO()
    display = progress.Display(Console(file=out, width=40), clock=lambda: now[0])
    cargo = progress.CargoProgress(total=3, done={"libc"}, running={"torch-sys": 0.0})
    with display.step("compiling", cargo) as step:
        for second in range(1, 36):
            now[0] = float(second)
            if second == 4:
                step.finished("libc")
            step.tick()
    assert out.getvalue().splitlines() == [
        "compiling …",
        "      4 s  [1/3] libc",
        "     14 s  [1/3] still running: torch-sys (takes minutes)",
        "     24 s  [1/3] still running: torch-sys (takes minutes)",
        "     34 s  [1/3] still running: torch-sys (takes minutes)",
    ]


def test_a_step_that_is_not_cargo_s_says_its_title() -> None:
    now = [0.0]
    out = StringIO()
    display = progress.Display(Console(file=out, width=40), clock=lambda: now[0])
    with display.step("translating") as step:
        now[0] = 11.0
        step.tick()
    assert out.getvalue().splitlines()[1] == "     11 s  still running: translating"


def test_a_terminal_gets_a_live_line() -> None:
    out = StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    cargo = progress.CargoProgress(done={"libc"}, running={"crate [x]": 0.0})
    with progress.Display(console).step("compiling", cargo) as step:
        cargo.total = 3
        step.finished("libc")
        step.tick()
    assert "1/3" in out.getvalue()
    assert "crate [x]" in out.getvalue()
