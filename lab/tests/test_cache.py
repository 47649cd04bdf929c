# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Cache entries: same inputs same key, complete or not there, resumable."""

import errno

import pytest

from paracord_lab import cache
from paracord_lab.errors import LabError


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARACORD_CACHE", str(tmp_path / "cache"))


def test_the_cache_is_a_directory_of_its_own_in_the_one_that_is_named(tmp_path, monkeypatch):
    """Its files change owners, and a user may name a disk."""
    (tmp_path / "cache").mkdir()
    assert cache.root() == tmp_path / "cache/paracord"
    monkeypatch.setenv("PARACORD_CACHE", str(tmp_path / "cache/paracord"))
    assert cache.root() == tmp_path / "cache/paracord"
    monkeypatch.delenv("PARACORD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.root() == tmp_path / "xdg/paracord"


def test_key_follows_content_and_not_the_order_of_fields():
    one = {"suites": ["trixie"], "packages": ["gcc", "make"], "resolved": ["linux-headers-1"]}
    assert cache.key(one) == cache.key(dict(reversed(one.items())))
    assert cache.key(one) != cache.key({**one, "resolved": ["linux-headers-2"]})
    assert cache.key(one) != cache.key({**one, "packages": ["make", "gcc"]})


def test_digest_sees_content_mode_and_name(tmp_path):
    path = tmp_path / "init"
    path.write_text("a")
    before = cache.files_digest([path])
    path.write_text("b")
    changed = cache.files_digest([path])
    path.chmod(0o755)
    assert (
        len({before, changed, cache.files_digest([path]), cache.files_digest([path.rename(tmp_path / "x")])})
        == 4
    )


def build_with(calls, fail=None):
    def build(directory, progress):
        calls.append(directory)
        (directory / "file").write_text("content")
        if fail:
            raise fail

    return build


def test_built_once_and_found_again():
    calls = []
    first = cache.ensure("tree", "x86_64", {"a": 1}, "a tree", build_with(calls))
    again = cache.ensure("tree", "x86_64", {"a": 1}, "a tree", build_with(calls))
    assert first == again and len(calls) == 1 and (first / "file").read_text() == "content"
    other = cache.ensure("tree", "x86_64", {"a": 2}, "a tree", build_with(calls))
    assert other != first and len(calls) == 2 and cache.newest("tree", "x86_64") == other


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), RuntimeError("x"), OSError(errno.EIO, "I/O error")])
def test_interrupted_build_leaves_nothing_and_is_made_again(failure):
    with pytest.raises((KeyboardInterrupt, RuntimeError, LabError)):
        cache.ensure("tree", "x86_64", {}, "a tree", build_with([], failure))
    assert [p.name for p in cache.root().iterdir()] == ["tree-x86_64.lock"]
    assert cache.newest("tree", "x86_64") is None
    calls = []
    cache.ensure("tree", "x86_64", {}, "a tree", build_with(calls))
    assert len(calls) == 1


def test_leftover_of_a_killed_build_is_removed():
    partial = cache.entry_path("tree", "x86_64", {}).with_suffix(".partial")
    partial.mkdir()
    (partial / "old").touch()
    entry = cache.ensure("tree", "x86_64", {}, "a tree", build_with([]))
    assert not partial.exists() and not (entry / "old").exists()


def test_full_disk_is_one_line_with_the_remedy():
    full = OSError(errno.ENOSPC, "No space left on device", "/x/y")
    with pytest.raises(LabError) as error:
        cache.ensure("tree", "x86_64", {}, "a tree", build_with([], full))
    text = str(error.value)
    assert "the disk is full (/x/y)" in text and "PARACORD_CACHE" in text and "\n" not in text


def test_a_nearly_full_disk_is_said_before_the_work(tmp_path):
    cache.need_free(tmp_path, 0, "the host tree")
    with pytest.raises(LabError, match=r"nearly full: .* the host tree needs 999999999 MB: free some or set"):
        cache.need_free(tmp_path, 999999999, "the host tree")
