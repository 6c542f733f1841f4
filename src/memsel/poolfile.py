"""The file of a pool: written whole or not at all, and read whole or not at all.

An uncompressed .npz (a zip archive of .npy members), since NumPy is the one dependency that every user has: no tool
needs memsel to read the columns, and memsel needs no other library to write them. docs/pool_format.md lists the
members. The archive's comment holds the version and a checksum of every byte before it. Whatever a file claims is
checked against its size before anything is made of it, and nothing in it is ever run.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from . import _pool
from .errors import InputError

__all__ = ["Content", "read", "write"]

VERSION = 1
_COMMENT = "memsel-pool {version} crc32 {checksum:08x}"
_COMMENT_FORM = re.compile(rb"memsel-pool ([0-9]{1,9}) crc32 ([0-9a-f]{8})\Z")
_COMMENT_LENGTH = len(_COMMENT.format(version=VERSION, checksum=0))
_FUTURE_FORM = re.compile(rb"memsel-pool ([0-9]{1,9}) ")
# Row numbers end here in a file, so that a few bytes cannot ask for tables of any size.
_MOST_ROWS = 1 << 36
_LOCAL_HEADER = 30

# Members, their types, and which length they have: that of the rows, of the payloads, or their own.
_MEMBERS = {
    "next_row": ("<i8", "one"),
    "row": ("<i8", "rows"),
    "timestamp": ("<f8", "rows"),
    "importance": ("<f8", "rows"),
    "decay_factor": ("<f8", "rows"),
    "last_access": ("<f8", "rows"),
    "tokens": ("<i8", "rows"),
    "id_text": ("|u1", "bytes"),
    "id_ends": ("<i8", "rows"),
    "id_is_int": ("|u1", "rows"),
    "payload_row": ("<i8", "payloads"),
    "payload_text": ("|u1", "bytes"),
    "payload_ends": ("<i8", "payloads"),
}


@dataclass
class Content:
    """One state of a pool: ids and columns in insertion order, and payloads by row number."""

    ids: list[Any]
    rows: npt.NDArray[np.int64]
    timestamp: npt.NDArray[np.float64]
    importance: npt.NDArray[np.float64]
    decay_factor: npt.NDArray[np.float64]
    last_access: npt.NDArray[np.float64]
    tokens: npt.NDArray[np.int64]
    next_row: int
    payloads: dict[int, Any]


def write(path: str | os.PathLike[str], content: Content) -> int:
    """Put a state in the place of whatever file is there, at once; how many payloads were left out, being no JSON."""
    members, left_out = _members(content)
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    number, beside = tempfile.mkstemp(prefix=f".{os.path.basename(target)}.", suffix=".part", dir=folder)
    try:
        with open(number, "w+b") as file:
            np.savez(file, allow_pickle=False, **members)
            with zipfile.ZipFile(file, "a") as archive:
                archive.comment = _COMMENT.format(version=VERSION, checksum=0).encode()
            end = file.seek(-_COMMENT_LENGTH, os.SEEK_END)
            file.seek(0)
            checksum, left = 0, end
            while left:
                part = file.read(min(left, 1 << 20))
                checksum = zlib.crc32(part, checksum)
                left -= len(part)
            file.write(_COMMENT.format(version=VERSION, checksum=checksum).encode())
            file.flush()
            _keep_mode(number, target)
            os.fsync(number)
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    _sync_folder(folder)
    return left_out


def read(path: str | os.PathLike[str]) -> Content:
    """The state that a file holds.

    Raises:
        InputError: the file is damaged, of a newer version, or no saved pool; the message names what was found.
    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        data = file.read()
    _check_whole(data, name)
    try:
        members = dict(_arrays(data, name))
        return _content(members, name)
    except InputError:
        raise
    except (ArithmeticError, LookupError, RecursionError, UnicodeError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{name} is no saved pool: {error}") from error


# Writing --------------------------------------------------------------------------------------------------------------


def _members(content: Content) -> tuple[dict[str, npt.NDArray[Any]], int]:
    is_int = np.fromiter((type(one) is int for one in content.ids), np.uint8, len(content.ids))
    texts = [_text(one) for one in content.ids]
    payload_rows, payload_texts = [], []
    for row, payload in content.payloads.items():
        text = _json(payload)
        if text is not None:
            payload_rows.append(row)
            payload_texts.append(text)
    members = {
        "next_row": np.array([content.next_row]),
        "row": content.rows,
        "timestamp": content.timestamp,
        "importance": content.importance,
        "decay_factor": content.decay_factor,
        "last_access": content.last_access,
        "tokens": content.tokens,
        "id_text": np.frombuffer(b"".join(texts), np.uint8),
        "id_ends": _ends(texts),
        "id_is_int": is_int,
        "payload_row": np.array(payload_rows, np.int64),
        "payload_text": np.frombuffer(b"".join(payload_texts), np.uint8),
        "payload_ends": _ends(payload_texts),
    }
    members = {name: column.astype(_MEMBERS[name][0], copy=False) for name, column in members.items()}
    return members, len(content.payloads) - len(payload_rows)


def _text(entry_id: Any) -> bytes:
    # In hexadecimal, which takes time in proportion to the length for numbers of any size.
    return entry_id.encode("utf-8", "surrogatepass") if type(entry_id) is str else b"%x" % entry_id


def _ends(texts: list[bytes]) -> npt.NDArray[np.int64]:
    return np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))


def _json(payload: Any) -> bytes | None:
    """The payload as JSON that gives it back, or None."""
    try:
        text = json.dumps(payload, allow_nan=False)
        return text.encode() if json.loads(text) == payload else None
    except (TypeError, ValueError, RecursionError):
        return None


def _keep_mode(number: int, target: str) -> None:
    """The access rights of the file that is replaced, or those that a new file would get."""
    try:
        mode = os.stat(target).st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    if hasattr(os, "fchmod"):
        os.fchmod(number, mode)


def _sync_folder(folder: str) -> None:
    """Have the disk know the new name, where the system lets a folder be opened."""
    try:
        number = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(number)
    except OSError:
        pass
    finally:
        os.close(number)


# Reading --------------------------------------------------------------------------------------------------------------


def _check_whole(data: bytes, name: str) -> None:
    comment = _COMMENT_FORM.match(data[-_COMMENT_LENGTH:])
    version = comment or _FUTURE_FORM.search(data[-1000:])
    if version and int(version[1]) > VERSION:
        raise InputError(f"{name} is a saved pool of version {int(version[1])}; this memsel reads version {VERSION}")
    if comment is None:
        if data[:4] == b"PK\3\4":
            raise InputError(f"{name} is no saved pool, or was cut short: it does not end with a pool's checksum")
        raise InputError(f"{name} is no saved pool: it does not begin as a .npz file does")
    if zlib.crc32(memoryview(data)[:-_COMMENT_LENGTH]) != int(comment[2], 16):
        raise InputError(f"{name} is damaged: its checksum does not fit its content")


def _arrays(data: bytes, name: str) -> Any:
    """(name, array) of each member, over the file's own bytes."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
    if sorted(info.filename for info in infos) != sorted(f"{member}.npy" for member in _MEMBERS):
        raise InputError(f"{name} is no saved pool: its members are not {', '.join(_MEMBERS)}")
    for info in infos:
        member = info.filename.removesuffix(".npy")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise InputError(f"{name} is no saved pool: {member} is compressed")
        header = data[info.header_offset : info.header_offset + _LOCAL_HEADER]
        first = info.header_offset + _LOCAL_HEADER + int.from_bytes(header[26:28], "little")
        first += int.from_bytes(header[28:30], "little")
        if len(header) < _LOCAL_HEADER or first + info.file_size > len(data):
            raise InputError(f"{name} is no saved pool: {member} ends behind the file")
        yield member, _array(memoryview(data)[first : first + info.file_size], member, name)


def _array(part: memoryview, member: str, name: str) -> npt.NDArray[Any]:
    beginning = io.BytesIO(part[:1024])
    if np.lib.format.read_magic(beginning) != (1, 0):
        raise InputError(f"{name} is no saved pool: {member} is no .npy of version 1.0")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(beginning)
    wanted = np.dtype(_MEMBERS[member][0])
    if fortran or len(shape) != 1 or dtype != wanted:
        _wrong(name, f"{member} is {dtype} of shape {shape}; expected one dimension of {wanted}")
    first = beginning.tell()
    if len(part) - first != shape[0] * wanted.itemsize:
        raise InputError(f"{name} is no saved pool: {member} has {shape[0]} values in {len(part) - first} bytes")
    return np.frombuffer(part, wanted, shape[0], first)


def _content(members: dict[str, npt.NDArray[Any]], name: str) -> Content:
    lengths: dict[str, int] = {"one": 1}
    for member, (_, kind) in _MEMBERS.items():
        if kind != "bytes" and len(members[member]) != lengths.setdefault(kind, len(members[member])):
            _wrong(name, f"{member} has {len(members[member])} values; expected {lengths[kind]}")
    rows, tokens = members["row"], members["tokens"]
    next_row = int(members["next_row"][0])
    if not 0 <= next_row <= _MOST_ROWS:
        _wrong(name, f"next_row is {next_row}; expected 0 to {_MOST_ROWS}")
    if len(rows) and not (rows[0] >= 0 and rows[-1] < next_row and (rows[1:] > rows[:-1]).all()):
        _wrong(name, f"row does not rise from 0 or more to below next_row, {next_row}")
    if len(tokens) and tokens.min() < 0:
        _wrong(name, f"tokens[{int((tokens < 0).argmax())}] is below 0")
    if members["id_is_int"].max(initial=0) > 1:
        _wrong(name, "id_is_int holds more than 0 and 1")
    for kind in ("id", "payload"):
        _check_ends(members[f"{kind}_ends"], len(members[f"{kind}_text"]), f"{kind}_ends", name)
    ids = _pool.text_ids(members["id_text"], members["id_ends"], members["id_is_int"])
    payloads = {}
    if len(members["payload_row"]):
        if not np.isin(members["payload_row"], rows).all():
            _wrong(name, "payload_row names a row that is not there")
        text = members["payload_text"].tobytes()
        first = 0
        for row, end in zip(members["payload_row"].tolist(), members["payload_ends"].tolist(), strict=True):
            payloads[row] = json.loads(text[first:end], parse_constant=_no_constant)
            first = end
    return Content(
        ids=ids,
        rows=rows,
        timestamp=members["timestamp"],
        importance=members["importance"],
        decay_factor=members["decay_factor"],
        last_access=members["last_access"],
        tokens=tokens,
        next_row=next_row,
        payloads=payloads,
    )


def _check_ends(ends: npt.NDArray[np.int64], length: int, member: str, name: str) -> None:
    rises = not len(ends) or (ends[0] >= 0 and (ends[1:] >= ends[:-1]).all())
    if not rises or (ends[-1] if len(ends) else 0) != length:
        _wrong(name, f"{member} does not rise to {length}")


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"a payload holds {word}, which is not JSON")


def _wrong(name: str, what: str) -> NoReturn:
    raise InputError(f"{name} is no saved pool: {what}")
