"""One process of a verification: `record` runs the source files, `check` the native module.

A process of its own for each: both have modules of the same names, and native code that ends its
process does not end the command.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rextio_torch.verify import bundle
from rextio_torch.verify.check import check, load_native
from rextio_torch.verify.events import say, serve
from rextio_torch.verify.function import SourceFunction
from rextio_torch.verify.record import Inputs, record


def follow(orders: Mapping[str, Any]) -> None:
    """Load the module, record a bundle or check one."""
    if orders["do"] == "load":
        say({"event": "loaded", "module": load_native(orders["path"])})
    elif orders["do"] == "record":
        wanted = [SourceFunction.from_dict(item) for item in orders["functions"]]
        inputs = Inputs.read(orders["shapes"], orders["values"], orders["inputs"])
        recorded = record(wanted, orders["source_id"], inputs, orders["case"], say)
        recorded.save(Path(orders["bundle"]))
    else:
        check(
            bundle.load(Path(orders["bundle"])),
            path=orders["path"],
            engines=orders["engines"],
            functions=orders["functions"],
            case=orders["case"],
            say=say,
        )


if __name__ == "__main__":
    serve(follow)
