"""Tensors of a torch file, read without executing anything in it.

A torch file is a zip of `NAME/data.pkl` and `NAME/data/KEY`. The pickle is read by an unpickler that knows the
rebuilding of a tensor and the names of the storage types, and refuses every other name.
"""

from __future__ import annotations

import io
import math
import pickle
import struct
import zipfile
from typing import Any

from ..base.errors import InputError

LARGEST = 64 * 2**20
# The pickle says which tensors there are, the numbers lie beside it: it is small, and so is all that comes of it.
LARGEST_PICKLE = 2**19
MOST_ITEMS = 16 * 2**20

# storage type -> (struct code, bytes an element)
_STORAGES = {
    "FloatStorage": ("f", 4),
    "DoubleStorage": ("d", 8),
    "HalfStorage": ("e", 2),
    "LongStorage": ("q", 8),
    "IntStorage": ("i", 4),
    "ShortStorage": ("h", 2),
    "CharStorage": ("b", 1),
    "ByteStorage": ("B", 1),
    "BoolStorage": ("?", 1),
}


def read_tensors(data: bytes, *, where: str) -> Any:
    """What was saved, with tensors as (nested) lists; lists, tuples and mappings of tensors are kept.

    Raises  InputError for anything that is not such a file or holds more than tensors.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _Tensors(archive, where).load()
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{where}: not a readable torch file: {type(error).__name__}",
            hint="save the vector as JSON: json.dump(tensor.tolist(), file)",
        ) from None


class _Tensors:
    def __init__(self, archive: zipfile.ZipFile, where: str) -> None:
        self.archive, self.where = archive, where
        names = [info.filename for info in archive.infolist()]
        pickles = [name for name in names if name.endswith("data.pkl")]
        if len(pickles) != 1:
            raise InputError(f"{where}: a zip, but no torch file", hint="CSV, JSON or a torch file of one vector")
        if sum(info.file_size for info in archive.infolist()) > LARGEST:
            raise InputError(f"{where}: larger than 64 MiB", hint="a vector of rates is small: is it a checkpoint?")
        if archive.getinfo(pickles[0]).file_size > LARGEST_PICKLE:
            raise InputError(f"{where}: a pickle larger than 512 KiB", hint="a vector or a growmap has few tensors")
        self.pickle, self.folder = pickles[0], pickles[0][: -len("data.pkl")]
        self.items = 0
        order = f"{self.folder}byteorder"
        self.order = ">" if order in names and archive.read(order).strip() == b"big" else "<"

    def load(self) -> Any:
        outer = self

        # Python's own: the one in C reserves memory for whatever number of memo entries the file names.
        class Only(pickle._Unpickler):
            def find_class(self, module: str, name: str) -> Any:
                return outer.known(module, name)

            def persistent_load(self, pid: Any) -> Any:
                return outer.storage(pid)

        return self.plain(Only(io.BytesIO(self.archive.read(self.pickle))).load())

    def count(self, items: int) -> None:
        """Refuse a file of which more comes than is in it: the same storage or the same list, over and over."""
        self.items += items
        if self.items > MOST_ITEMS:
            raise InputError(f"{self.where}: a torch file of too many numbers", hint="is it a checkpoint?")

    def plain(self, value: Any) -> Any:
        """What was saved, as lists and mappings."""
        if isinstance(value, _Tensor):
            return value.numbers
        self.count(MOST_ITEMS // LARGEST_PICKLE)  # a pickle has at most one item a byte
        if isinstance(value, dict):
            return {str(key): self.plain(item) for key, item in value.items()}
        return [self.plain(item) for item in value] if isinstance(value, (list, tuple)) else value

    def known(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda *arguments: self.rebuild(*arguments)  # a fresh one: the file cannot change the function
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return name
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        raise InputError(
            f"{self.where}: holds more than tensors ({module[:40]}.{name[:40]}), refused",
            hint="only tensors are read, nothing is executed: save the vector alone",
        )

    def storage(self, pid: Any) -> tuple[Any, ...]:
        """('storage', type, key, device, elements)."""
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage" or pid[1] not in _STORAGES:
            raise InputError(f"{self.where}: an unknown kind of storage", hint="save the vector as float32 or JSON")
        code, size = _STORAGES[pid[1]]
        raw = self.archive.read(f"{self.folder}data/{pid[2]}")
        count = len(raw) // size
        self.count(count)
        return struct.unpack(f"{self.order}{count}{code}", raw[: count * size])

    def rebuild(self, storage: tuple[Any, ...], offset: int, size: Any, stride: Any, *_: Any) -> Any:
        """A tensor as nested lists."""
        if len(size) > 4 or min(size, default=0) < 0:
            raise ValueError("shape")
        self.count(math.prod(max(length, 1) for length in size))
        return _Tensor(_nested(storage, offset, size, stride))


class _Tensor:
    """A tensor's numbers as nested lists."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers


def _nested(storage: tuple[Any, ...], offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> Any:
    if not size:
        return storage[offset]
    return [_nested(storage, offset + i * stride[0], size[1:], stride[1:]) for i in range(size[0])]
