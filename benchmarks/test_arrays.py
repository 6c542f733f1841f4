"""``pytest benchmarks/``: the array door, alone."""

import numpy as np
import pytest

import memsel

from . import contestants, work


@pytest.mark.parametrize("scores", [np.float64, np.float32])
@pytest.mark.parametrize("rows", [100, 1_000, 10_000, 100_000, 1_000_000])
def test_select_arrays(benchmark, rows, scores):
    data = work.columns(rows, scores=scores)
    config = memsel.SelectionConfig()
    kept = benchmark(contestants.memsel_arrays(data, config))
    assert contestants.rows_of(kept) == contestants.numpy_argsort(data, config)()


@pytest.mark.parametrize("threads", [1, 2])
def test_select_batch(benchmark, threads):
    data = work.columns(200 * 1_000)
    offsets = np.arange(0, 200_001, 1_000)
    kept = benchmark(memsel.select_batch, *data, offsets=offsets, now=work.NOW, threads=threads)
    for query in (0, 199):
        part = slice(query * 1_000, (query + 1) * 1_000)
        alone = memsel.select_arrays(*(column[part] for column in data), now=work.NOW)
        assert kept[query].indices.tolist() == alone.indices.tolist()
