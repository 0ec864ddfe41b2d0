"""Torch files are read without executing anything in them."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile

import pytest

from specplan.base.errors import InputError
from specplan.stacks.detect import read_acceptance
from specplan.stacks.torch_file import read_tensors


class Storage:
    """Pickles as torch's persistent id of a storage does."""

    def __init__(self, kind, key, count, device="cpu"):
        self.pid = ("storage", kind, key, device, count)


def _rebuild_tensor_v2():
    raise AssertionError("only its name is used")


def saved(value, storages, *, byteorder=None, folder="vector"):
    """A zip as torch.save writes it."""
    buffer = io.BytesIO()

    class Writer(pickle._Pickler):
        def persistent_id(self, given):
            return given.pid if isinstance(given, Storage) else None

    Writer(buffer, protocol=2).dump(value)
    data = buffer.getvalue()
    data = data.replace(f"c{__name__}\n_rebuild_tensor_v2\n".encode(), b"ctorch._utils\n_rebuild_tensor_v2\n")
    data = data.replace(b"cbuiltins\nFloatStorage\n", b"ctorch\nFloatStorage\n")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(f"{folder}/data.pkl", data)
        for key, raw in storages.items():
            archive.writestr(f"{folder}/data/{key}", raw)
        if byteorder:
            archive.writestr(f"{folder}/byteorder", byteorder)
    return out.getvalue()


class Tensor:
    def __init__(self, storage, size, stride, offset=0):
        self.arguments = (storage, offset, size, stride, False, {})

    def __reduce__(self):
        return _rebuild_tensor_v2, self.arguments


def vector(values, *, device="cpu", order="<"):
    raw = struct.pack(f"{order}{len(values)}f", *values)
    tensor = Tensor(Storage("FloatStorage", "0", len(values), device), (len(values),), (1,))
    return saved(tensor, {"0": raw}, byteorder="big" if order == ">" else None)


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_vector_is_read_whatever_the_device_and_the_byte_order(tmp_path, device, order):
    file = tmp_path / "acceptance-rate-vector.pt"
    file.write_bytes(vector([0.0, 0.625, 0.125, 0.0625, 0.1875], device=device, order=order))
    found = read_acceptance(str(file))
    assert found.row(1, 5) == (0.625, 0.125, 0.0625)


def test_raw_hits_of_heads_are_read(tmp_path):
    raw = struct.pack("8?", 1, 0, 0, 1, 1, 0, 0, 0)
    heads = [
        Tensor(Storage("BoolStorage", "0", 8), (4, 2), (2, 1)),
        Tensor(Storage("BoolStorage", "0", 8), (4, 2), (2, 1)),
    ]
    file = tmp_path / "heads.pt"
    file.write_bytes(saved(heads, {"0": raw}))
    found = read_acceptance(str(file))
    assert [found.row(depth, 2) for depth in (1, 2)] == [(0.5, 0.25)] * 2
    assert found.counts.by_depth_rank[0] == ((2.0, 4.0), (1.0, 4.0))


class Runs:
    def __reduce__(self):
        return print, ("executed",)


@pytest.mark.parametrize("value", [Runs(), {"state": Runs()}, [1, Runs()]])
def test_a_file_that_holds_more_than_tensors_is_refused_and_not_executed(refused, tmp_path, capsys, value):
    file = tmp_path / "evil.pt"
    file.write_bytes(saved(value, {}))
    message = refused(["acceptance", str(file)])
    assert "more than tensors" in message
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: data[:30] + b"\xff" * 40 + data[70:]]
)
def test_a_damaged_file_is_refused(damage):
    with pytest.raises(InputError, match="torch file"):
        read_tensors(damage(vector([0.5, 0.25])), where="case")


def test_a_shape_larger_than_the_file_is_refused():
    with pytest.raises(InputError, match="too many numbers"):
        read_tensors(saved(Tensor(Storage("FloatStorage", "0", 1), (10**10,), (0,)), {"0": b"\0" * 4}), where="case")


def test_another_zip_is_refused(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(InputError, match="no torch file"):
        read_tensors(out.getvalue(), where="case")


def test_a_matrix_of_something_else_is_refused(tmp_path):
    file = tmp_path / "weights.pt"
    raw = struct.pack("<4f", 1, 2, 3, 4)
    file.write_bytes(saved(Tensor(Storage("FloatStorage", "0", 4), (), ()), {"0": raw}))
    with pytest.raises(InputError, match="shape that is not known"):
        read_acceptance(str(file))
