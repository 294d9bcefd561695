"""A single bytes payload for a browser component: a JSON header and the arrays it names.

Layout: header length (uint32, little-endian), header as UTF-8 JSON, then each array at an offset
that is a multiple of 8 from the start of the array area. The header's "arrays" maps a name to
[dtype, shape, offset]. Bidirectional controls in its texts are escaped (models/printable.py), so
that no token or name reverses the text around it.
"""

import json
import struct
from typing import Any

import numpy as np

from models.printable import show_directions

_ALIGN = 8


def pack(header: dict[str, Any], **arrays: np.ndarray) -> bytes:
    """Pack the header and the arrays into one payload, read by `unpack` in common/payload.js."""
    places, chunks, offset = {}, [], 0
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array).tobytes()
        places[name] = [str(array.dtype), list(array.shape), offset]
        chunks.append(raw.ljust(-(-len(raw) // _ALIGN) * _ALIGN, b"\0"))
        offset += len(chunks[-1])
    head = show_directions(json.dumps({**header, "arrays": places}, ensure_ascii=False)).encode()
    return b"".join([struct.pack("<I", len(head)), head, *chunks])


def unpack(payload: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a payload, as the browser reads them."""
    (length,) = struct.unpack_from("<I", payload)
    header = json.loads(payload[4 : 4 + length])
    arrays = {
        name: np.frombuffer(
            payload, dtype, count=int(np.prod(shape)), offset=4 + length + offset
        ).reshape(shape)
        for name, (dtype, shape, offset) in header["arrays"].items()
    }
    return header, arrays
