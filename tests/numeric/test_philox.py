"""Random numbers: known answers, bitwise equality of C and numpy, and the shape of each distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from backends.reference import philox as p
from compiler.ir.level0.streams import splitmix64, stream_key
from tests.numeric.device_library import DeviceLibrary, build

TYPES = {"f32": np.float32, "f64": np.float64}
N = 200_000
KEY = stream_key(42, "populations/exc/v")

# Random123 1.14, tests/kat_vectors: philox4x32 10; counter, key (low, high), result
KNOWN = [
    ([0] * 4, [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.fixture(scope="module")
def library(cc: list[str], tmp_path_factory: pytest.TempPathFactory) -> DeviceLibrary:
    return build(cc, tmp_path_factory.mktemp("device"), "-march=native", "-ffp-contract=off")


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_known_answers(counter: list[int], key: list[int], expected: list[int], library: DeviceLibrary) -> None:
    joined = key[0] | key[1] << 32
    assert library.philox(counter, joined) == expected
    assert [int(w) for w in p.philox(*counter, joined)] == expected


def test_splitmix_and_stream_keys() -> None:
    # the first outputs of SplitMix64 from seed 0 (Vigna's splitmix64.c)
    assert splitmix64(0) == 0xE220A8397B1DCDAF
    assert splitmix64(0x9E3779B97F4A7C15) == 0x6E789E6AA1B965F4
    keys = {stream_key(s, n) for s in range(30) for n in ("a", "b", "populations/exc")}
    assert len(keys) == 90 and all(0 <= k < 1 << 64 for k in keys)
    assert stream_key(-1, "a") == stream_key((1 << 64) - 1, "a")


def test_counter_layout() -> None:
    index, step, draw = 0x0123456789ABCDEF, 0xABCD89ABCDEF, 17
    by_hand = p.philox(0x89ABCDEF, 0x01234567, 0x89ABCDEF, 17 << 16 | 0xABCD, KEY)
    np.testing.assert_array_equal(p.words(KEY, index, step, draw), by_hand)


def _same_bits(a: NDArray[Any], b: NDArray[Any]) -> None:
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"))


@pytest.mark.parametrize("suffix", TYPES)
@pytest.mark.parametrize("name", ["uniform", "normal", "exponential"])
def test_c_and_numpy_agree_by_bits(name: str, suffix: str, library: DeviceLibrary) -> None:
    index = np.arange(1_000_000, dtype=np.uint64) + np.uint64((1 << 32) - 500_000)
    mirror = getattr(p, name)(KEY, index, 1 << 33, 3, TYPES[suffix])
    _same_bits(library(f"{name}_{suffix}", KEY, index, 1 << 33, 3), mirror)


@pytest.mark.parametrize("suffix", TYPES)
def test_poisson_agrees_by_bits(suffix: str, library: DeviceLibrary) -> None:
    index = np.arange(200_000, dtype=np.uint64)
    lam = (10.0 ** np.linspace(-3, 9, len(index))).astype(TYPES[suffix])
    lam[:5] = 0, -1, np.nan, np.inf, 12
    mirror = p.poisson(KEY, index, 5, 2, lam, TYPES[suffix])
    c = library(f"poisson_{suffix}", KEY, index, 5, 2, lam)
    assert mirror[0] == 0 and np.isnan(mirror[1:4]).all() and np.isnan(c[1:4]).all()
    _same_bits(np.delete(c, [1, 2, 3]), np.delete(mirror, [1, 2, 3]))


@pytest.mark.parametrize("suffix", TYPES)
def test_binomial_agrees_by_bits(suffix: str, library: DeviceLibrary) -> None:
    index = np.arange(200_000, dtype=np.uint64)
    n = np.floor(10.0 ** np.linspace(0, 15, len(index))).astype(TYPES[suffix])
    chance = np.random.default_rng(1).random(len(index)) ** np.tile([1, 4, 20, 60], len(index) // 4)
    chance = np.where(index % np.uint64(3) == 0, 1 - chance, chance).astype(TYPES[suffix])
    none = [(-1, 0.5), (2.5, 0.5), (np.nan, 0.5), (np.inf, 0.5), (3, -0.1), (3, 1.1), (3, np.nan)]
    sure = [(0, 0.5), (7, 0), (7, 1), (1000, 1), (1000, 0)]
    n[:12], chance[:12] = np.array([*none, *sure], TYPES[suffix]).T
    mirror = p.binomial(KEY, index, 5, 2, n, chance, TYPES[suffix])
    c = library(f"binomial_{suffix}", KEY, index, 5, 2, n, chance)
    assert np.isnan(mirror[:7]).all() and np.isnan(c[:7]).all()
    assert mirror[7:12].tolist() == [0, 0, 7, 1000, 0] and (mirror[7:] <= n[7:]).all() and (mirror[7:] >= 0).all()
    _same_bits(c[7:], mirror[7:])


@pytest.mark.parametrize("dtype", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("name", ["uniform", "normal", "exponential"])
def test_distribution(name: str, dtype: type) -> None:
    law = {"uniform": stats.uniform, "normal": stats.norm, "exponential": stats.expon}[name]
    over_index = getattr(p, name)(KEY, np.arange(N), 1, 0, dtype)
    over_steps = np.array([getattr(p, name)(KEY, 0, k, 0, dtype) for k in range(2000)])
    assert over_index.dtype == dtype
    assert stats.kstest(over_index.astype(float), law.cdf).pvalue > 1e-3
    assert stats.kstest(over_steps.astype(float).ravel(), law.cdf).pvalue > 1e-3
    # neighbours in each direction of the counter are independent
    for other in (
        np.roll(over_index, 1),
        getattr(p, name)(KEY, np.arange(N), 2, 0, dtype),
        getattr(p, name)(KEY, np.arange(N), 1, 1, dtype),
        getattr(p, name)(stream_key(42, "populations/inh/v"), np.arange(N), 1, 0, dtype),
    ):
        assert abs(np.corrcoef(over_index, other)[0, 1]) < 4 / np.sqrt(N)


def test_uniform_uses_every_bit() -> None:
    for dtype, bits in ((np.float32, 24), (np.float64, 53)):
        whole = p.uniform(KEY, np.arange(N), 0, 0, dtype).astype(np.float64) * 2.0**bits
        assert (whole == np.floor(whole)).all() and whole.max() < 2.0**bits
        ones = np.mean((whole.astype(np.uint64)[:, None] >> np.arange(bits, dtype=np.uint64)) & 1, 0)
        assert np.abs(ones - 0.5).max() < 5 * 0.5 / np.sqrt(N)


def test_exponential_and_normal_tails() -> None:
    for dtype in TYPES.values():
        x = p.normal(KEY, np.arange(N), 7, 0, dtype)
        expected = N * 2 * stats.norm.sf(4.0)
        assert abs(np.sum(np.abs(x) > 4) - expected) < 5 * np.sqrt(expected)
        assert (p.exponential(KEY, np.arange(N), 7, 0, dtype) >= 0).all()


def _fits(counts: NDArray[Any], law: Any) -> None:
    """Chi-square of the counts; cells with an expectation below 10 are joined to the tails."""
    low, high = (int(v) for v in law.ppf([20 / N, 1 - 20 / N]))
    cells = np.bincount(np.clip(counts, low, high).astype(int) - low, minlength=high - low + 1)
    expected = law.pmf(np.arange(low, high + 1))
    expected[0], expected[-1] = law.cdf(low), law.sf(high - 1)
    assert stats.chisquare(cells, expected / expected.sum() * N).pvalue > 1e-3
    assert abs(counts.mean() - law.mean()) < 4 * law.std() / np.sqrt(N)
    assert abs(counts.var() / law.var() - 1) < 5 * np.sqrt((2 + law.stats("k")) / N)


@pytest.mark.parametrize("lam", [0.3, 5.0, 11.999, 12.0, 50.0, 1000.0])
def test_poisson(lam: float) -> None:
    _fits(p.poisson(KEY, np.arange(N), 3, 0, lam), stats.poisson(lam))


FEW = ((1, 0.3), (5, 0.5), (20, 0.9), (100, 0.1), (1000, 0.0119), (200, 0.999), (10**6, 1e-5))
MANY = ((100, 0.125), (1000, 0.012), (30, 0.45), (40, 0.6), (1000, 0.5), (10**6, 3e-5), (2**52, 2.0**-46))


@pytest.mark.parametrize(("n", "chance"), (*FEW, *MANY))
def test_binomial(n: int, chance: float) -> None:
    """On both sides of a mean of 12, from which on counts are drawn by rejection, and of p = 0.5."""
    _fits(p.binomial(KEY, np.arange(N), 3, 0, n, chance), stats.binom(n, chance))


def test_counts_of_large_mean_have_their_variance() -> None:
    for mean in (1e6, 1e12):
        z = (p.poisson(KEY, np.arange(50_000), 3, 0, mean) - mean) / np.sqrt(mean)
        assert stats.kstest(z, stats.norm.cdf).pvalue > 1e-3
        for chance in (0.25, 0.5, 0.75):
            drawn = p.binomial(KEY, np.arange(50_000), 3, 0, mean / chance // 1, chance)
            z = (drawn - mean) / np.sqrt(mean * (1 - chance))
            assert stats.kstest(z, stats.norm.cdf).pvalue > 1e-3
