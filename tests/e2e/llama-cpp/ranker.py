"""ranker.py IN.gguf OUT.gguf: adds a classification head with fixed weights, cls.output.weight
[width, 1], so that the tests of /rerank have a model. The result has the keys of IN; its head says
nothing about texts."""

import struct
import sys

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, F32 = 8, 9, 0


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, form):
        (v,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize(form)
        return v

    def string(self):
        n = self.number("Q")
        self.at += n
        return self.data[self.at - n : self.at].decode("utf-8", "replace")

    def value(self, kind):
        """Skips a value; returns it if it is a 32-bit integer."""
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            kind, n = self.number("I"), self.number("Q")
            for _ in range(n if kind == STRING else 0):
                self.string()
            self.at += 0 if kind == STRING else n * SIZES[kind]
        else:
            self.at += SIZES[kind]
            return struct.unpack_from("<I", self.data, self.at - 4)[0] if kind == 4 else None


def add_head(data):
    r = Reader(data)
    r.at = 8
    tensors, keys = r.number("Q"), r.number("Q")
    align, width = 32, 0
    for _ in range(keys):
        key = r.string()
        v = r.value(r.number("I"))
        if key == "general.alignment":
            align = v
        if key.endswith(".embedding_length"):
            width = v
    for _ in range(tensors):
        r.string()
        dims = r.number("I")
        r.at += 8 * dims + 12
    body = data[r.at + -r.at % align :]
    body += bytes(-len(body) % align)
    name = b"cls.output.weight"
    info = struct.pack("<Q", len(name)) + name + struct.pack("<IQQIQ", 2, width, 1, F32, len(body))
    head = data[:8] + struct.pack("<Q", tensors + 1) + data[16 : r.at] + info
    weights = struct.pack(f"<{width}f", *((i * 37 % 101 - 50) / 500 for i in range(width)))
    return head + bytes(-len(head) % align) + body + weights + bytes(-len(weights) % align)


with open(sys.argv[1], "rb") as f:
    out = add_head(f.read())
with open(sys.argv[2], "wb") as f:
    f.write(out)
