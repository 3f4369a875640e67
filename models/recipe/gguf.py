"""Reads the tensors of foretoken-tiny.gguf, so that training can go on from them."""
import numpy as np

import vocabulary

SIZES = {0: (1, 4), 1: (1, 2), 8: (32, 34), 13: (256, 176), 14: (256, 210), 30: (1, 2)}  # type: (values, bytes) of a block


def half(b):
    return np.ascontiguousarray(b).view(np.float16).astype(np.float32)


def q8_0(b):
    return half(b[:, :2]) * b[:, 2:].view(np.int8).astype(np.float32)


def q5_k(b):
    d, m, s = half(b[:, 0:2]), half(b[:, 2:4]), b[:, 4:16].astype(np.int32)
    scale = np.concatenate([s[:, 0:4] & 63, (s[:, 8:12] & 15) | (s[:, 0:4] >> 6 << 4)], 1)
    least = np.concatenate([s[:, 4:8] & 63, (s[:, 8:12] >> 4) | (s[:, 4:8] >> 6 << 4)], 1)
    high, low = b[:, 16:48].astype(np.int32), b[:, 48:176].astype(np.int32).reshape(-1, 4, 32)
    q = np.stack([low & 15, low >> 4], 2).reshape(-1, 8, 32) + (high[:, None, :] >> np.arange(8)[None, :, None] & 1) * 16
    return ((d * scale)[:, :, None] * q - (m * least)[:, :, None]).reshape(-1, 256)


def q6_k(b):
    low, high = b[:, 0:128].astype(np.int32).reshape(-1, 2, 2, 32), b[:, 128:192].astype(np.int32).reshape(-1, 2, 1, 32)
    nibble = np.concatenate([low & 15, low >> 4], 2)                                    # 4 groups of 32 in each half
    q = nibble + ((high >> np.array([0, 2, 4, 6])[None, None, :, None]) & 3) * 16 - 32
    scale = b[:, 192:208].view(np.int8).astype(np.float32)
    return (half(b[:, 208:210]) * np.repeat(scale, 16, 1)) * q.reshape(-1, 256)


def table(f):
    """Name, shape, type and offset of every tensor, and where their data begins."""
    number = lambda c: vocabulary.number(f, c)
    text = lambda: vocabulary.value(f, 8)
    f.read(8)
    count, keys = number('Q'), number('Q')
    for _ in range(keys):
        text()
        vocabulary.value(f, number('I'))
    out = []
    for _ in range(count):
        name = text()
        shape = [number('Q') for _ in range(number('I'))]
        out.append((name, shape[::-1], number('I'), number('Q')))
    return out, (f.tell() + 31) // 32 * 32


def tensors(path):
    """Name and values (f32) of every tensor."""
    out = {}
    with open(path, 'rb') as f:
        rows, begin = table(f)
        for name, shape, kind, offset in rows:
            values, size = SIZES[kind]
            f.seek(begin + offset)
            raw = np.frombuffer(f.read(int(np.prod(shape)) // values * size), np.uint8)
            if kind == 0:
                x = raw.view(np.float32)
            elif kind == 30:
                x = (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
            else:
                x = {1: half, 8: q8_0, 13: q5_k, 14: q6_k}[kind](raw.reshape(-1, size))
            out[name] = np.array(x, np.float32).reshape(shape)
    return out
