"""Rextio's own analyser on generated projects, with every site it offers recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rextio.analyzer.models import FunctionAnalysis
from rextio.analyzer.project_scanner import analyze_project
from rextio.config.schema import PluginConfig, RextioConfig
from rextio.plugins.api import ClaimResult, ClaimSite
from rextio.plugins.loader import load_plugin_registry
from rextio.targets.models import TargetSpec

from rextio_torch.plugin import TorchPlugin
from rextio_torch.versions import PLUGIN_ID

ROUTE = f"native-plugin:{PLUGIN_ID}"


class RecordingPlugin(TorchPlugin):
    """The plugin, remembering each site it was offered and what it said."""

    def __init__(self) -> None:
        self.offered: list[tuple[ClaimSite, ClaimResult]] = []

    def claim(self, site: ClaimSite, config: object) -> ClaimResult:
        result = super().claim(site, config)
        self.offered.append((site, result))
        return result


@dataclass(frozen=True)
class EntryPoint:
    """What Rextio needs of an entry point."""

    plugin: object
    name: str = PLUGIN_ID
    dist: None = None

    def load(self) -> object:
        return self.plugin


@dataclass(frozen=True)
class Analysis:
    """Functions by qualified name, and the sites that the plugin was offered."""

    functions: Mapping[str, FunctionAnalysis]
    offered: tuple[tuple[ClaimSite, ClaimResult], ...]

    def codes(self, qualname: str) -> list[str]:
        return [diagnostic.code for diagnostic in self.functions[qualname].diagnostics]

    def native(self, qualname: str) -> bool:
        """Whether the function runs as native code of this plugin (a Python shim does not)."""
        function = self.functions[qualname]
        return (
            function.accepted and function.route == ROUTE and not function.native_runtime_semantics
        )


def write_project(root: Path, modules: Mapping[str, str]) -> Path:
    """Write an ordinary project that enables the plugin."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "rextio.toml").write_text(f'[plugins]\nenabled = ["{PLUGIN_ID}"]\n', encoding="utf-8")
    for name, text in modules.items():
        (root / f"{name}.py").write_text(text, encoding="utf-8")
    return root


def analyse(
    root: Path,
    modules: Mapping[str, str],
    *others: object,
    plugin: TorchPlugin | None = None,
    config: RextioConfig | None = None,
) -> Analysis:
    """Analyse modules in a project; `others` are further plugins to enable."""
    write_project(root, modules)
    recorder = plugin or RecordingPlugin()
    plugins = [recorder, *others]
    names = [str(vars(type(item)).get("plugin_id", PLUGIN_ID)) for item in plugins]
    registry = load_plugin_registry(
        PluginConfig(enabled=tuple(names)),
        TargetSpec(language="rust"),
        entry_points=[EntryPoint(item, name) for item, name in zip(plugins, names, strict=True)],
    )
    project = analyze_project(
        root,
        active_plugins=registry.active,
        plugin_registry=registry,
        plugin_config=config or RextioConfig(),
    )
    functions = {
        function.qualname: function for module in project.modules for function in module.functions
    }
    return Analysis(functions, tuple(getattr(recorder, "offered", ())))
