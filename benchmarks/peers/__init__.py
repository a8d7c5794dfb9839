"""All contenders, in the order in which tables show them."""

from __future__ import annotations

from benchmarks.contender import Peer
from benchmarks.contenders import CONSTANTS, INPUTS
from benchmarks.peers import aoti, compiled, eager, native, onnxruntime

PEERS: tuple[Peer, ...] = (
    *eager.PEERS,
    *compiled.PEERS,
    *aoti.PEERS,
    *onnxruntime.PEERS,
    *native.PEERS,
)

assert {peer.key for peer in PEERS} == {*INPUTS, *CONSTANTS}
