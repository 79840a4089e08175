"""Files that are written whole or not at all."""

import os
from unittest.mock import Mock

import pytest

from ode_transformer.files import atomic_file, atomic_folder, write_text


def test_what_goes_wrong_leaves_the_older_file_and_names_it(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic_file(path) as file:
        file.write("new")
        raise RuntimeError
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left") as error:
        write_text(path, "new")
    assert error.value.filename == str(path), "and not the temporary one"
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(OSError, match="No such file") as error, atomic_file(path) as file:
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
    for names in (lambda part: (part / "a",), lambda part: ("other", None, part / "a")):  # a file; one and its copy
        with pytest.raises(OSError, match="No space left") as error, atomic_folder(tmp_path / "x") as part:
            raise OSError(28, "No space left on device", *names(part))
        assert error.value.filename == str(tmp_path / "x"), "and not what is gone"
    assert not list(tmp_path.iterdir())
    with atomic_folder(tmp_path / "x") as part:
        (part / "a").touch()
        assert not (tmp_path / "x").exists()
    assert [p.name for p in tmp_path.rglob("*")] == ["x", "a"]
