"""Compiled packs on disk: used where they can be trusted, made again where not."""

from __future__ import annotations

import gc
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rewrite import resources
from rewrite.lang import pack as pack_reader
from rewrite.match import cache, store
from rewrite.match import matcher as matching
from rewrite.match.matcher import Matcher
from rewrite.match.program import Program
from rewrite.match.vocabulary import vocabulary
from rewrite.target import load
from tests.match.support import ROOT, read_model

PACK = "name: small\ndoc: A pack for tests.\nopset: [7, 26]\nexample_opset: 18\n"
RULE = '''
rule no_op in clean {
  """Identity does nothing."""
  match y = Identity(x)
  emit  y = x
  claim exact
  example fires plain """g (float[2] a) => (float[2] y) { t = Relu(a) y = Identity(t) }"""
  example rejects other """g (float[2] a) => (float[2] y) { y = Relu(a) }"""
}
'''


@pytest.fixture
def pack(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "pack.yaml").write_text(PACK)
    (folder / "a.rules").write_text(RULE)
    return folder


def kept(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "rewrite").iterdir())


def works(matcher: Matcher) -> bool:
    model = read_model("g (float[2] a) => (float[2] y) { t = Relu(a) y = Identity(t) }")
    found = matcher.match("clean", model.node("y"), model.facts)
    return found is not None and found.rule.name == "no_op" and found.env["x"] is model.value("t")


def test_written_then_read(pack, tmp_path):
    first = cache.open_packs([pack], [])
    second = cache.open_packs([pack], [])
    assert (first.state, second.state) == ("written", "read")
    assert works(first.matcher)
    assert works(second.matcher)
    (file,) = kept(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_rule_text_is_not_parsed_again(pack, monkeypatch):
    cache.open_packs([pack], [])
    monkeypatch.setattr(pack_reader, "load_packs", lambda *_: pytest.fail("parsed again"))
    monkeypatch.setattr(matching, "compile_pack", lambda *_: pytest.fail("compiled again"))
    assert works(cache.open_packs([pack], []).matcher)


@pytest.mark.parametrize("change", ["text", "file", "manifest"])
def test_changed_packs_are_compiled_again(pack, change):
    cache.open_packs([pack], [])
    if change == "text":
        (pack / "a.rules").write_text(RULE.replace("does nothing", "does nothing at all"))
    elif change == "file":
        (pack / "b.rules").write_text(RULE.replace("no_op", "again"))
    else:
        (pack / "pack.yaml").write_text(PACK.replace("[7, 26]", "[8, 26]"))
    found = cache.open_packs([pack], [])
    assert found.state == "written"
    assert len(found.matcher.entries) == (2 if change == "file" else 1)
    low = found.matcher.entries[0].rule.opset[0]
    assert low == (8 if change == "manifest" else 7)


def test_the_folder_a_pack_lies_in_is_part_of_the_key(pack, tmp_path):
    """Spans of errors name the file, so equal text elsewhere is another entry."""
    cache.open_packs([pack], [])
    other = pack.rename(tmp_path / "moved")
    found = cache.open_packs([other], [])
    assert found.state == "written"
    assert found.matcher.entries[0].rule.rule.span.file.startswith(str(other))


def damage(file: Path, how: str) -> None:
    data = file.read_bytes()
    if how == "cut":
        file.write_bytes(data[:-1])
    elif how == "empty":
        file.write_bytes(b"")
    elif how == "bit":
        file.write_bytes(data[:-10] + bytes([data[-10] ^ 1]) + data[-9:])
    elif how == "head":
        file.write_bytes(b"x" + data[1:])
    elif how == "group writes":
        file.chmod(0o620)
    elif how == "others write":
        file.chmod(0o602)
    elif how == "link":
        real = file.with_name("elsewhere")
        file.rename(real)
        file.symlink_to(real)
    elif how == "folder":
        file.unlink()
        file.mkdir()


@pytest.mark.parametrize(
    "how", ["cut", "empty", "bit", "head", "group writes", "others write", "link", "folder"]
)
def test_a_file_that_cannot_be_trusted_is_not_used(pack, tmp_path, how):
    cache.open_packs([pack], [])
    (file,) = kept(tmp_path)
    damage(file, how)
    assert store.read(file) is None
    found = cache.open_packs([pack], [])
    assert found.state != "read"
    assert works(found.matcher)


def test_a_file_of_another_user_is_not_used(pack, tmp_path, monkeypatch):
    cache.open_packs([pack], [])
    (file,) = kept(tmp_path)
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert store.read(file) is None
    assert cache.open_packs([pack], []).state.endswith("is open to others")


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_may_enter_is_not_used(pack, tmp_path, mode):
    cache.open_packs([pack], [])
    (tmp_path / "cache" / "rewrite").chmod(mode)
    found = cache.open_packs([pack], [])
    assert found.state.endswith("is open to others")
    assert works(found.matcher)


def test_a_folder_that_is_a_link_is_not_used(pack, tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "rewrite").symlink_to(tmp_path / "real")
    assert cache.open_packs([pack], []).state.endswith("is open to others")
    assert not list((tmp_path / "real").iterdir())


def test_no_folder_at_all(pack, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    found = cache.open_packs([pack], [])
    assert found.state.startswith("no cache folder")
    assert works(found.matcher)


def test_old_files_are_dropped(pack, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MOST_FILES", 3)
    for i in range(6):
        (pack / "a.rules").write_text(RULE.replace("nothing", f"nothing {i}"))
        cache.open_packs([pack], [])
    assert len(kept(tmp_path)) == 3
    assert cache.open_packs([pack], []).state == "read", "the newest is kept"


def test_the_same_packs_under_any_hash_seed(pack, tmp_path):
    """One run writes, another with other hashes reads: order of sets is nowhere in it."""
    program = (
        "import sys; from pathlib import Path; from rewrite.match.cache import open_packs\n"
        "found = open_packs([Path(sys.argv[1])], [])\n"
        "print(found.state, [e.rule.name for e in found.matcher.entries])"
    )
    states = []
    for seed in ("0", "1"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", program, str(pack)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        states.append(done.stdout.strip())
    assert states == ["written ['no_op']", "read ['no_op']"]


@pytest.fixture
def targets(tmp_path, monkeypatch) -> dict[str, Path]:
    """Copies of the shipped targets, so that they can be changed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "targets"
    folder.mkdir()
    for name, file in resources.shipped("targets").items():
        (folder / f"{name}.yaml").write_text(file.read_text())
    found = {file.stem: file for file in sorted(folder.iterdir())}
    rules = resources.shipped("rules")
    monkeypatch.setattr(resources, "shipped", lambda kind: found if kind == "targets" else rules)
    return found


def test_a_target_that_was_kept_is_the_target(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shipped = resources.shipped("targets")
    for name in shipped:
        first = cache.open_target(name, shipped)
        assert first == load.load_target(name, vocabulary())
        with monkeypatch.context() as patch:
            patch.setattr(load, "load_target", lambda *_: pytest.fail("read again"))
            again = cache.open_target(name, shipped)
        assert again == first


def test_a_changed_target_is_read_again(targets):
    assert cache.open_target("host", targets).doc != "Another one."
    text = targets["host"].read_text().splitlines()
    changed = ["doc: Another one." if line.startswith("doc:") else line for line in text]
    targets["host"].write_text("\n".join(changed) + "\n")
    assert cache.open_target("host", targets).doc == "Another one."


def test_only_programs_that_run_are_compiled(pack, monkeypatch):
    (pack / "b.rules").write_text(RULE.replace("no_op", "other").replace("Identity", "Neg"))
    compiled = []
    plain = Program.code.fget
    monkeypatch.setattr(Program, "code", property(lambda p: compiled.append(p) or plain(p)))
    for _ in range(2):
        assert works(cache.open_packs([pack], []).matcher)
    assert len(compiled) == 2  # `no_op`, in each matcher
    assert len({p.text for p in compiled}) == 1


def test_the_collector_is_as_it_was(pack):
    seen = []
    for on in (True, False):
        (gc.enable if on else gc.disable)()
        try:
            (pack / "a.rules").write_text(RULE + "\n" * (2 + on))
            assert cache.open_packs([pack], []).state == "written"
            seen.append(gc.isenabled())
        finally:
            gc.enable()
    assert seen == [True, False]


def test_compiled_packs_hold_no_trees(pack):
    matcher = cache.open_packs([pack], []).matcher
    (rule,) = matcher.rules("clean")
    assert set(vars(rule.source)) == {"rule_data", "pattern_data"}
    assert set(rule.pattern.names) == {"x", "y"}
    assert rule.rule.name == "no_op"
