"""Which episodes are held out together, so that no measurement rewards memorising."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

ROWS = 256
"""segments that are compared with all others at a time"""


def split(groups: NDArray[np.int64], folds: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Fold i64 [E] of every episode; episodes of one group share a fold, folds hold about equally many.

    Groups are dealt in random order, the largest first, each to the fold that holds the fewest episodes.
    """
    _, index, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(sizes))
    fold, held = np.zeros(len(sizes), np.int64), np.zeros(folds, np.int64)
    for group in order[np.argsort(-sizes[order], kind="stable")]:
        fold[group] = held.argmin()
        held[fold[group]] += sizes[group]
    return fold[index]


def same_play(*parts: tuple[NDArray[np.float32], NDArray[np.int64]], episodes: int) -> NDArray[np.int64]:
    """Group i64 [E] of every episode, from observations f32 [S, P, D] of segments (or, P being 1, of states)
    of the episodes i64 [S].

    Two episodes are of one group where a segment of one has the same first and last observation as a segment
    of the other, or where half of the observations of each are found in the other: emulators repeat
    themselves to the bit, and a model that saw the one knows the other by heart.
    """
    links = [np.zeros((2, 0), np.int64)]
    for points, episode in parts:
        rows = (points + np.float32(0)).reshape(-1, points.shape[-1])  # adding 0 makes a -0 a 0
        known: dict[bytes, int] = {}
        names = np.array([known.setdefault(row.tobytes(), len(known)) for row in rows])
        names = names.reshape(points.shape[:2])
        links += [episode[pairs.T] for pairs in (_equal_ends(names), _half_shared(names, len(known)))]
    a, b = np.concatenate(links, axis=1)
    graph = sparse.coo_array((np.ones(len(a), np.bool_), (a, b)), (episodes, episodes))
    return csgraph.connected_components(graph, directed=False)[1].astype(np.int64)


def _equal_ends(names: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pairs [L, 2] of a segment and the first one that begins and ends as it does."""
    _, first, index = np.unique(names[:, [0, -1]], axis=0, return_index=True, return_inverse=True)
    return np.stack([first[index.ravel()], np.arange(len(names))], axis=1)


def _half_shared(names: NDArray[np.int64], known: int) -> NDArray[np.int64]:
    """Pairs [L, 2] of segments half of whose observations, in both, are the other's."""
    segments, points = names.shape
    row = np.repeat(np.arange(segments), points)
    times = sparse.csr_array((np.ones(names.size, np.int32), (row, names.ravel())), (segments, known))
    once = times.astype(np.bool_).astype(np.int32)
    found = [np.zeros((0, 2), np.int64)]
    for start in range(0, segments, ROWS):
        some = slice(start, start + ROWS)
        mine = (times[some] @ once.T).tocoo()
        theirs = (once[some] @ times.T).tocoo()
        both = set(_half(mine, points)) & set(_half(theirs, points))
        if both:
            found.append(np.array(sorted(both)) + np.array([start, 0]))
    return np.concatenate(found)


def _half(shared: sparse.coo_array, points: int) -> list[tuple[int, int]]:
    enough = 2 * shared.data >= points
    a, b = shared.coords
    return list(zip(a[enough].tolist(), b[enough].tolist(), strict=True))
