"""What goes into each wrapper that Rextio writes: the user's module in the wrapper's place.

A wrapper imports a copy of the user's file under another name, and shows its public names. With
this, what `import model` gives is the module of that file itself, under its own name, and with the
native functions in it: private names, `logging.getLogger(__name__)`, classes, pickles and
`monkeypatch` are as without a build. `cli/publish.py` writes the text of the functions here into
the wrappers, which have nothing of this package to import.
"""

from __future__ import annotations

from types import CodeType, ModuleType
from typing import Any


def _rextio_torch_load(
    wrapper: dict[str, Any], fallback: str
) -> tuple[ModuleType, CodeType | None]:
    """Load the user's file as the module that a wrapper with these globals is.

    Of a program that is run (`python -m model`) the part from `if __name__ == "__main__":` on is
    returned, to run once its functions are native.
    """
    import __future__

    import ast
    import importlib.util
    import os
    import sys

    def asks_for_main(node: ast.stmt) -> bool:
        if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
            return False
        sides = {ast.unparse(side) for side in (node.test.left, *node.test.comparators)}
        return sides == {"__name__", "'__main__'"} and isinstance(node.test.ops[0], ast.Eq)

    package = wrapper["__package__"]
    copied = f"{package}.{fallback}" if package else fallback
    name = wrapper["__name__"]
    path = os.path.join(os.path.dirname(wrapper["__file__"]), f"{fallback}.py")
    spec: Any = importlib.util.spec_from_file_location(copied, path)
    loader = spec.loader
    module = sys.modules.get(copied)
    # Reloading runs the wrapper in the module that is there.
    if module is None or vars(module) is not wrapper:
        module = importlib.util.module_from_spec(spec)
        for key in ("__name__", "__path__", "__spec__"):
            if key in wrapper:
                setattr(module, key, wrapper[key])
    code, rest = loader.get_code(copied), None
    if name == "__main__":
        # A process that is spawned runs this file too, and must find the wrapper.
        module.__file__ = wrapper["__file__"]
        body = ast.parse(loader.get_source(copied)).body
        at = next((i for i, node in enumerate(body) if asks_for_main(node)), len(body))
        features = (getattr(__future__, feature) for feature in __future__.all_feature_names)
        flags = sum(feature.compiler_flag for feature in features) & code.co_flags
        rest = compile(ast.Module(body[at:], []), path, "exec", flags, dont_inherit=True)
        code = compile(ast.Module(body[:at], []), path, "exec", flags, dont_inherit=True)
    sys.modules[copied] = sys.modules[name] = module
    try:
        exec(code, vars(module))
    except BaseException:
        del sys.modules[copied]
        raise
    return module, rest


def _rextio_torch_finish(
    wrapper: dict[str, Any], module: ModuleType, rest: CodeType | None
) -> None:
    """Make native functions look like the user's, and run the rest of a program."""
    import functools
    import types

    attributes = ("__name__", "__qualname__", "__doc__", "__annotations__", "__type_params__")
    for name, function in list(wrapper.items()):
        if not isinstance(function, types.FunctionType) or not function.__closure__:
            continue
        if function.__globals__ is not wrapper:
            continue
        for cell in function.__closure__:
            original = cell.cell_contents
            own = getattr(original, "__module__", None) == module.__name__
            if own and getattr(original, "__name__", None) == name:
                functools.update_wrapper(function, original, assigned=attributes, updated=())
    # A spawned process takes what the wrapper has for the names of the program.
    wrapper.update({key: it for key, it in vars(module).items() if not key.startswith("__")})
    if rest is not None:
        exec(rest, vars(module))
