#!/usr/bin/env python3
"""Mixes two versions of a model: SHARE of the values of NEW (BF16), the rest of those of OLD, into OUT (a copy of NEW).

usage: mix.py SHARE OLD.gguf NEW.gguf OUT.gguf"""
import shutil
import sys

import numpy as np

import gguf


def main():
    share, old, new, out = float(sys.argv[1]), gguf.tensors(sys.argv[2]), gguf.tensors(sys.argv[3]), sys.argv[4]
    shutil.copy(sys.argv[3], out)
    with open(out, 'r+b') as f:
        table, begin = gguf.table(f)
        for name, _, kind, offset in table:
            x = np.ascontiguousarray((1 - share) * old[name] + share * new[name], np.float32)
            f.seek(begin + offset)
            if kind == 0:
                f.write(x.tobytes())
            else:
                assert kind == 30, (name, kind)
                u = x.view(np.uint32)
                f.write((u + 0x7fff + (u >> 16 & 1) >> 16).astype(np.uint16).tobytes())


if __name__ == '__main__':
    main()
