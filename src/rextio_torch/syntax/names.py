"""The names that a module binds at its top level: imports, aliases, annotations with a name."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst
from libcst.helpers import get_full_name_for_node

from rextio_torch.syntax.tree import dotted_name, statements


@dataclass
class Names:
    """The names that a module binds at its top level."""

    module: str
    imports: dict[str, str] = field(default_factory=dict)
    #: Names that are imported inside `if` or `try` only.
    conditional: frozenset[str] = frozenset()
    #: `Mat = TensorF32Cpu2D`, as dotted names.
    aliases: dict[str, str] = field(default_factory=dict)
    #: `Mat = Annotated[Tensor, TensorF32Cpu2D]` and other annotations with a name.
    annotations: dict[str, cst.BaseExpression] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)
    stars: list[str] = field(default_factory=list)
    #: Names of `logging.getLogger(…)`, whose methods Rextio knows.
    loggers: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, module: cst.Module, name: str, *, is_package: bool) -> Names:
        """Collect what the module's own statements bind, also inside `if`, `try` and `with`."""
        names = cls(name)
        package = name if is_package else name.rpartition(".")[0]
        always = cls(name)
        for statement in statements(module.body):
            names._bind(statement, package)
        for line in module.body:
            for statement in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                always._bind(statement, package)
        names.conditional = frozenset(names.imports.keys() - always.imports.keys())
        return names

    def _bind(self, statement: cst.CSTNode, package: str) -> None:
        match statement:
            case cst.Import(names=aliases):
                for alias in aliases:
                    target = get_full_name_for_node(alias.name) or ""
                    visible = alias.evaluated_alias
                    self.imports[visible or target.partition(".")[0]] = (
                        target if visible else target.partition(".")[0]
                    )
            case cst.ImportFrom(names=aliases):
                base = _base(statement, package)
                if isinstance(aliases, cst.ImportStar):
                    self.stars.append(base)
                    return
                for alias in aliases:
                    self.imports[alias.evaluated_alias or alias.evaluated_name] = (
                        f"{base}.{alias.evaluated_name}"
                    )
            case cst.Assign(targets=targets, value=value):
                for item in targets:
                    self._assign(item.target, value)
            case cst.AnnAssign(target=target, value=value):
                self._assign(target, value)
            case cst.FunctionDef(name=target) | cst.ClassDef(name=target):
                self._forget(target)
            case cst.AugAssign(target=target) | cst.For(target=target) | cst.Del(target=target):
                self._forget(target)

    def _forget(self, target: cst.CSTNode) -> None:
        """Note that names stand for something else later on, or for nothing."""
        if isinstance(target, cst.Name):
            self.aliases.pop(target.value, None)
            self.annotations.pop(target.value, None)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._forget(element.value)

    def _assign(self, target: cst.BaseExpression, value: cst.BaseExpression | None) -> None:
        if not isinstance(target, cst.Name):
            return
        if target.value in self.assigned:
            # What it stands for depends on where and when.
            self.aliases.pop(target.value, None)
            self.annotations.pop(target.value, None)
            return
        self.assigned.add(target.value)
        called = dotted_name(value.func) if isinstance(value, cst.Call) else None
        if called is not None and called.rpartition(".")[2] == "getLogger":
            self.loggers.add(target.value)
        dotted = dotted_name(value)
        if dotted is not None:
            self.aliases[target.value] = dotted
        elif isinstance(value, (cst.Subscript, cst.SimpleString)):
            self.annotations[target.value] = value


def _base(statement: cst.ImportFrom, package: str) -> str:
    base = get_full_name_for_node(statement.module) if statement.module is not None else ""
    level = len(statement.relative)
    if not level:
        return base or ""
    parents = package.split(".")
    parents = parents[: len(parents) - level + 1]
    return ".".join([*parents, *([base] if base else [])])
