"""Files that are written whole or not at all."""

import os
import time

import pytest

from ode_transformer.errors import OdeTransformerError
from ode_transformer.files import atomic_file, atomic_folder, make_folder, read_json, write_text


def test_what_goes_wrong_leaves_the_older_file(tmp_path):
    path = tmp_path / "x"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic_file(path) as file:
        file.write("new")
        raise RuntimeError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path, monkeypatch):
    write_text(tmp_path / ("ä" * 127), "new")  # as long as a name may be
    (tmp_path / ("ä" * 127)).unlink()
    long = tmp_path / ("x" * 256)
    with pytest.raises(OSError, match="File name too long") as error:
        write_text(long, "new")
    assert str(error.value).endswith(f"File name too long: '{long}'")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        write_text(tmp_path / "y", "new")
    assert error.value.filename == str(tmp_path / "y") and not list(tmp_path.iterdir())
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_text("/dev/full", "new")
    with pytest.raises(ConnectionResetError) as error, atomic_file(tmp_path / "y"):
        raise ConnectionResetError(104, "Connection reset by peer")
    assert error.value.filename is None, "which is not about the file"
    with pytest.raises(OSError, match="No such file") as error, atomic_file(tmp_path / "y") as file:
        file.write((tmp_path / "other").read_text())
    assert error.value.filename == str(tmp_path / "other")


def test_a_pipe_stays_a_pipe_and_a_link_a_link(tmp_path):
    """As a device does."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_text(path, "new")
    assert os.read(reader, 9) == b"new" and path.is_fifo() and list(tmp_path.iterdir()) == [path]
    os.close(reader)
    (tmp_path / "target").write_text("old")
    for name in ("target", "absent"):
        (tmp_path / f"{name}.link").symlink_to(name)
        write_text(tmp_path / f"{name}.link", "new")
        assert (tmp_path / f"{name}.link").is_symlink() and (tmp_path / name).read_text() == "new"


def test_a_file_keeps_its_mode_and_a_new_one_has_that_of_the_umask(tmp_path):
    (tmp_path / "old").touch()
    (tmp_path / "old").chmod(0o600)
    before = os.umask(0o027)
    try:
        for name, mode in (("old", 0o600), ("new", 0o640)):
            write_text(tmp_path / name, "new")
            assert (tmp_path / name).stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)


def test_a_folder_takes_its_name_when_it_is_complete_and_otherwise_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "x") as part:
        (part / "a").touch()
        raise RuntimeError
    assert not list(tmp_path.iterdir())
    with atomic_folder(tmp_path / "x") as part:
        (part / "a").touch()
        assert not (tmp_path / "x").exists()
    assert [p.name for p in tmp_path.rglob("*")] == ["x", "a"]


def test_a_file_or_a_link_to_nothing_in_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "runs").symlink_to("unmounted")
    with pytest.raises(OSError, match=r"a link to a folder that does not exist: '.*runs'"):
        make_folder(tmp_path / "runs" / "mine")
    (tmp_path / "x").touch()
    with pytest.raises(OSError, match="is a file, or a link"):
        write_text(tmp_path / "x" / "y", "new")
    with pytest.raises(OSError, match=r"is a file, or a link.*: '.*/x'"):
        make_folder(tmp_path / "x" / "y" / "z")


def test_text_that_cannot_be_written_again_is_refused(tmp_path):
    """Half of a character, which JSON can hold and UTF-8 cannot."""
    path = tmp_path / "x.json"
    path.write_text(r'{"a": ["\ud83d\ude00", "\\ud800"]}')
    assert read_json(path) == {"a": ["\U0001f600", r"\ud800"]}
    path.write_text(r'{"a": ["\ud800"]}')
    with pytest.raises(OdeTransformerError, match=r"x\.json: cannot be read: .*surrogates not allowed"):
        read_json(path)


def test_what_a_killed_writer_left_goes_with_the_next_one(tmp_path):
    """Its lock went with it; that of one who still writes is there."""
    gone, kept = (".x.0123456789abcdef", ".data.0123456789abcdef"), (".xy.0123456789abcdef", ".x.mine")
    (tmp_path / gone[1]).mkdir()
    for name in (gone[0], f"{gone[1]}/inside", *kept):
        (tmp_path / name).write_text("half")
    for name in (*gone, *kept):
        os.utime(tmp_path / name, (0, 0))
    kept = (*kept, ".x.fedcba9876543210")  # of a writer that is about to lock it
    (tmp_path / kept[-1]).touch()
    os.utime(tmp_path / kept[-1], (time.time() + 600,) * 2)
    with atomic_file(tmp_path / "x") as file, atomic_folder(tmp_path / "data") as part:
        (writing,) = set(tmp_path.glob(".x.*")) - {tmp_path / name for name in (*gone, *kept)}
        for path in (writing, part):
            os.utime(path, (0, 0))
        write_text(tmp_path / "x", "other")
        with atomic_folder(tmp_path / "data"):
            pass
        (tmp_path / "data").rmdir()
        assert writing.exists() and part.exists(), "their writer lives"
        file.write("new")
    assert {path.name for path in tmp_path.iterdir()} == {"x", "data", *kept}
    assert (tmp_path / "x").read_text() == "new"
