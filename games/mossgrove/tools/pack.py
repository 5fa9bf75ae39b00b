"""Packing: runs and repeats for pictures and rooms, pairs of letters for text."""

from collections import Counter
from itertools import pairwise

WINDOW, SHORTEST, LONGEST, RUN = 255, 2, 129, 127
FIRST_PAIR = 128


def pack(data: bytes) -> bytes:
    """The shortest sequence of runs (n, n bytes) and repeats (128 + length - 2, distance), ended by 0."""
    repeats = [_longest_repeat(data, i) for i in range(len(data))]
    cost = [0] * (len(data) + 1)
    choice = [(0, 0)] * len(data)
    for i in range(len(data) - 1, -1, -1):
        options = [(1 + n + cost[i + n], n, 0) for n in range(1, min(RUN, len(data) - i) + 1)]
        length, distance = repeats[i]
        options += [(2 + cost[i + n], n, distance) for n in range(SHORTEST, length + 1)]
        cost[i], *rest = min(options)
        choice[i] = (rest[0], rest[1])
    out, i = bytearray(), 0
    while i < len(data):
        n, distance = choice[i]
        out += bytes([128 + n - SHORTEST, distance]) if distance else bytes([n]) + data[i : i + n]
        i += n
    return bytes(out) + b"\0"


def _longest_repeat(data: bytes, i: int) -> tuple[int, int]:
    best = (0, 0)
    for distance in range(1, min(WINDOW, i) + 1):
        n = 0
        while n < LONGEST and i + n < len(data) and data[i + n - distance] == data[i + n]:
            n += 1
        best = max(best, (n, -distance))
    return best[0], -best[1]


def pack_texts(texts: list[bytes]) -> tuple[list[bytes], list[tuple[int, int]]]:
    """Texts in which byte 128 + i stands for the i-th pair, and the pairs; 0 is never part of one."""
    packed = [list(text) for text in texts]
    pairs: list[tuple[int, int]] = []
    while FIRST_PAIR + len(pairs) < 256:
        counts = Counter(pair for text in packed for pair in pairwise(text) if 0 not in pair)
        if not counts:
            break
        pair, count = min(counts.items(), key=lambda item: (-item[1], item[0]))
        if count < 4:
            break
        code = FIRST_PAIR + len(pairs)
        pairs.append(pair)
        packed = [_replaced(text, pair, code) for text in packed]
    return [bytes(text) for text in packed], pairs


def _replaced(text: list[int], pair: tuple[int, int], code: int) -> list[int]:
    out: list[int] = []
    i = 0
    while i < len(text):
        if tuple(text[i : i + 2]) == pair:
            out.append(code)
            i += 2
        else:
            out.append(text[i])
            i += 1
    return out
