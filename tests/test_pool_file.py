"""A pool's file: it comes back as it was, other tools read it, and it is whole or refused."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worlds import NOW

from memsel import InputError, MemoryPool, poolfile


def small_pool() -> MemoryPool:
    pool = MemoryPool()
    pool.upsert_arrays(
        ["a", 7, "7", "", "\ud800", -(2**70), "gone", "日本"],
        [NOW, -0.0, math.nan, math.inf, 1.5, -1e300, 2.0, NOW + 1e9],
        [0.5, math.nan, -math.inf, 5e-324, 1e308, -0.0, 1.0, 0.25],
        [0, 1, 2**63 - 1, 3, 4, 5, 6, 7],
        decay_factor=[1.0, 0.5, 1.0, 2.0, 10.0, 1.0, 1.0, 0.1],
        last_access=[1.0, 2.0, 3.0, math.nan, 5.0, 6.0, 7.0, 8.0],
        payloads=[{"text": "☃", "deep": [1, 2.5, None, True]}, "plain", None, [], 0, "\ud800", "gone", None],
    )
    pool.remove("gone")
    return pool


def contents(pool: MemoryPool) -> str:
    return repr([pool.get(one) for one in pool])


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "pool.npz"
    assert small_pool().save(path) == 0
    return path


def rewritten(path: Path, **members: Any) -> Path:
    """The file with members replaced or, where None, left out, and a checksum that fits."""
    with np.load(path) as archive:
        arrays = {**{name: archive[name] for name in archive.files}, **members}
    file = io.BytesIO()
    np.savez(file, **{name: array for name, array in arrays.items() if array is not None})
    return with_checksum(path, file)


def with_checksum(path: Path, file: io.BytesIO) -> Path:
    with zipfile.ZipFile(file, "a") as archive:
        archive.comment = b"memsel-pool 1 crc32 00000000"
    data = file.getvalue()
    path.write_bytes(data[:-28] + b"memsel-pool 1 crc32 %08x" % zlib.crc32(data[:-28]))
    return path


def test_a_pool_comes_back_as_it_was_saved(saved):
    loaded = MemoryPool.load(saved)
    assert contents(loaded) == contents(small_pool())
    assert loaded.rows_of(list(loaded)).tolist() == [0, 1, 2, 3, 4, 5, 7]
    loaded.upsert_arrays(["gone"], [NOW], [0.5], [1])
    assert loaded.rows_of(["gone"]).tolist() == [8]


def test_a_row_number_removed_before_the_save_is_not_given_after_it(tmp_path):
    pool = MemoryPool()
    pool.upsert_arrays(["a", "b"], [NOW] * 2, [0.5] * 2, [1, 1])
    pool.remove("b")
    pool.save(tmp_path / "pool.npz")
    loaded = MemoryPool.load(tmp_path / "pool.npz")
    loaded.upsert_arrays(["c"], [NOW], [0.5], [1])
    assert loaded.rows_of(["a", "c"]).tolist() == [0, 2]


def test_an_empty_pool_is_saved_too(tmp_path):
    MemoryPool().save(tmp_path / "pool.npz")
    assert list(MemoryPool.load(tmp_path / "pool.npz")) == []


def test_numpy_alone_reads_the_file(saved):
    with np.load(saved, allow_pickle=False) as archive:
        assert archive["row"].tolist() == [0, 1, 2, 3, 4, 5, 7]
        assert archive["tokens"].tolist() == [0, 1, 2**63 - 1, 3, 4, 5, 7]
        assert archive["next_row"].tolist() == [8]
        text, ends = archive["id_text"].tobytes(), archive["id_ends"].tolist()
        ids = [text[first:end].decode("utf-8", "surrogatepass") for first, end in zip([0, *ends], ends, strict=False)]
        ids = [int(one, 16) if is_int else one for one, is_int in zip(ids, archive["id_is_int"], strict=True)]
        assert ids == ["a", 7, "7", "", "\ud800", -(2**70), "日本"]
        text, ends = archive["payload_text"].tobytes(), archive["payload_ends"].tolist()
        assert json.loads(text[: ends[0]]) == {"text": "☃", "deep": [1, 2.5, None, True]}
        assert archive["payload_row"].tolist() == [0, 1, 3, 4, 5]


def test_payloads_that_json_does_not_give_back_are_left_out_and_counted(tmp_path):
    loop: list[Any] = []
    loop.append(loop)
    payloads = [object(), (1, 2), {1: "one"}, math.nan, {"a": {2}}, loop, b"bytes", {"fine": 1}]
    pool = MemoryPool()
    pool.upsert_arrays(range(8), [NOW] * 8, [0.5] * 8, [1] * 8, payloads=payloads)
    assert pool.save(tmp_path / "pool.npz") == 7
    loaded = MemoryPool.load(tmp_path / "pool.npz")
    assert [loaded.get(one).payload for one in loaded] == [None] * 7 + [{"fine": 1}]


def test_every_flipped_bit_is_noticed(saved):
    whole = saved.read_bytes()
    for at in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        saved.write_bytes(damaged)
        with pytest.raises(InputError, match=r"pool\.npz is"):
            MemoryPool.load(saved)


def test_a_file_cut_short_at_any_place_is_refused(saved):
    whole = saved.read_bytes()
    for end in [*range(0, len(whole), 11), len(whole) - 1]:
        saved.write_bytes(whole[:end])
        with pytest.raises(InputError, match=r"pool\.npz is"):
            MemoryPool.load(saved)
    saved.write_bytes(whole + b"more")
    with pytest.raises(InputError):
        MemoryPool.load(saved)


def test_a_newer_version_is_named(saved):
    whole = saved.read_bytes()
    for comment in (b"memsel-pool 2 crc32 00000000", b"memsel-pool 12 blake3 0123456789abcdef and more"):
        saved.write_bytes(whole[:-28] + comment)
        with pytest.raises(InputError, match=r"saved pool of version 1?2; this memsel reads version 1"):
            MemoryPool.load(saved)


def test_another_kind_of_file_is_no_saved_pool(tmp_path):
    path = tmp_path / "pool.npz"
    np.savez(path, a=np.arange(3))
    for data in (path.read_bytes(), b"", b"hello", b"PK\3\4", b"PK\5\6" + bytes(18), b"\x93NUMPY"):
        path.write_bytes(data)
        with pytest.raises(InputError, match="no saved pool"):
            MemoryPool.load(path)
    with pytest.raises(FileNotFoundError):
        MemoryPool.load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"tokens": None}, "its members are not"),
        ({"more": np.arange(3)}, "its members are not"),
        ({"tokens": np.zeros(7)}, "tokens is float64"),
        ({"tokens": np.zeros((7, 1), np.int64)}, "tokens is int64 of shape"),
        ({"tokens": np.zeros(6, np.int64)}, "tokens has 6 values; expected 7"),
        ({"tokens": np.array([1, 2, -3, 4, 5, 6, 7])}, r"tokens\[2\] is below 0"),
        ({"row": np.array([0, 1, 1, 2, 3, 4, 5])}, "row does not rise"),
        ({"row": np.array([-1, 0, 1, 2, 3, 4, 5])}, "row does not rise"),
        ({"row": np.array([0, 1, 2, 3, 4, 5, 8])}, "row does not rise"),
        ({"next_row": np.array([-1])}, "next_row is -1"),
        ({"next_row": np.array([2**62])}, "next_row is 4611686018427387904"),
        ({"next_row": np.array([8, 8])}, "next_row has 2 values"),
        ({"id_ends": np.array([1, 2, 3, 2, 3, 4, 5])}, "id_ends does not rise"),
        ({"id_ends": np.array([-1, 2, 3, 4, 5, 6, 7])}, "id_ends does not rise"),
        ({"id_is_int": np.array([0, 1, 1, 0, 0, 1, 0], np.uint8)}, "holds an id twice"),
        ({"id_is_int": np.array([0, 1, 0, 1, 0, 1, 0], np.uint8)}, "no saved pool: invalid literal for int"),
        ({"id_is_int": np.array([2, 1, 0, 0, 0, 1, 0], np.uint8)}, "id_is_int holds more"),
        ({"id_text": np.full(100, 255, np.uint8), "id_ends": np.array([1, 2, 3, 4, 5, 6, 100])}, "no saved pool"),
        ({"id_text": np.zeros(7, np.uint8), "id_ends": np.arange(1, 8), "id_is_int": np.zeros(7, np.uint8)},
         "an id twice"),
        ({"payload_row": np.array([0, 1, 2, 3, 6])}, "payload_row names a row"),
        ({"payload_text": np.frombuffer(b"nope!", np.uint8), "payload_ends": np.arange(1, 6)}, "no saved pool"),
        ({"payload_text": np.frombuffer(b"NaN", np.uint8), "payload_ends": np.array([3]), "payload_row": np.array([0])},
         "holds NaN"),
        ({"payload_text": np.frombuffer(b"[" * 10**6, np.uint8), "payload_ends": np.array([10**6]),
          "payload_row": np.array([0])}, "no saved pool"),
    ],
)  # fmt: skip
def test_a_file_whose_checksum_fits_but_whose_content_does_not_is_refused(saved, members, message):
    with pytest.raises(InputError, match=message):
        MemoryPool.load(rewritten(saved, **members))


def test_a_compressed_member_is_refused_before_it_is_unpacked(saved):
    file = io.BytesIO()
    with np.load(saved) as archive:
        np.savez_compressed(file, **{name: archive[name] for name in archive.files})
    with pytest.raises(InputError, match="compressed"):
        MemoryPool.load(with_checksum(saved, file))


def test_a_member_that_claims_more_than_the_file_holds_is_refused(saved):
    file = io.BytesIO()
    with np.load(saved) as archive, zipfile.ZipFile(file, "w") as made:
        for name in archive.files:
            member = io.BytesIO()
            np.save(member, archive[name])
            data = member.getvalue()
            if name == "timestamp":
                # The same length of header, with a shape of 10**13 rows in it.
                data = data.replace(b"'shape': (7,), }            ", b"'shape': (9999999999999,), }")
                assert b"9999999999999" in data
            made.writestr(f"{name}.npy", data)
    with pytest.raises(InputError, match="timestamp has 9999999999999 values in 56 bytes"):
        MemoryPool.load(with_checksum(saved, file))


def test_a_save_that_fails_leaves_the_old_file_and_nothing_beside_it(saved, monkeypatch):
    before = saved.read_bytes()

    def refuse(number: int) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(poolfile.os, "fsync", refuse)
    with pytest.raises(OSError, match="no space left"):
        MemoryPool().save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


@pytest.mark.skipif(not hasattr(os, "fchmod"), reason="access rights as on POSIX")
def test_a_save_keeps_the_access_rights_and_the_link_of_the_old_file(saved):
    saved.chmod(0o640)
    link = saved.with_name("link.npz")
    link.symlink_to(saved.name)
    MemoryPool().save(link)
    assert link.is_symlink()
    assert saved.stat().st_mode & 0o777 == 0o640
    assert list(MemoryPool.load(saved)) == []


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_kill_at_any_instant_of_a_save_leaves_a_whole_file(tmp_path):
    path = tmp_path / "pool.npz"
    count = 3000
    pool = MemoryPool()
    pool.upsert_arrays(range(count), [1.0] * count, [0.5] * count, [0] * count)
    pool.save(path)
    rng = np.random.default_rng(5)
    # Forks of one process that is past its imports, so that a hundred kills take seconds.
    killer = tmp_path / "killer.py"
    killer.write_text(_KILLER)
    done = subprocess.run(
        [sys.executable, str(killer), str(path), "100", str(rng.integers(2**31))],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kills, saves, mid_save = map(int, done.stdout.split())
    assert kills == 100
    # The kills hit while a file was being written as well as between.
    assert saves > 0
    assert mid_save > 0
    assert MemoryPool.load(path).get(0).tokens == saves


_KILLER = """
import os, random, signal, sys, time
from memsel import MemoryPool
path, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
folder = os.path.dirname(path)
mid_save = 0
state = MemoryPool.load(path).get(0).tokens
for _ in range(kills):
    child = os.fork()
    if child == 0:
        pool = MemoryPool.load(path)
        count = len(pool)
        while True:
            # Each state says of all its rows which one it is.
            tokens = pool.get(0).tokens + 1
            pool.upsert_arrays(range(count), [1.0] * count, [0.5] * count, [tokens] * count)
            pool.save(path)
    time.sleep(rng.uniform(0.0, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    parts = [name for name in os.listdir(folder) if name.endswith(".part")]
    mid_save += len(parts)
    for name in parts:
        os.unlink(os.path.join(folder, name))
    pool = MemoryPool.load(path)
    found = {pool.get(one).tokens for one in pool}
    if len(pool) != 3000 or len(found) != 1 or not found.pop() >= state:
        sys.exit("the file holds no state that was saved")
    state = pool.get(0).tokens
print(kills, state, mid_save)
"""
