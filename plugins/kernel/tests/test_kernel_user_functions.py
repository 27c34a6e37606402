"""Where a program's functions begin, and which files it will map: held against nm, and against what it maps."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from compiled import compile_c, list_symbols
from hypothesis import given, settings
from hypothesis import strategies as st
from omn_kernel.elf.functions import find_functions, find_offset
from omn_kernel.elf.image import read_image
from omn_kernel.elf.needed import read_needed
from omn_kernel.elf.source import ElfError, File, Memory
from omn_kernel.libraries import find_program, iter_mapped_files
from omn_kernel.symbols.mappings import parse_mappings

PROGRAM = """
#include <stdio.h>
__attribute__((noinline)) int inner_one(int n) { return n + 1; }
int one(int n) { return inner_one(n); }
int main(int count, char **arguments) { return one(count) == 0; }
"""


def test_functions_stand_where_nm_says(tmp_path: Path) -> None:
    """Under exactly their names, though the end of a longer one is another; nothing for a name that is not there."""
    path = compile_c(tmp_path, "named", PROGRAM, "-O1")
    with File(str(path)) as file:
        image = read_image(file)
        found = find_functions(image, {"one", "inner_one", "none", "puts"})
        known = {name: address for address, _, name in list_symbols(path) if name in ("one", "inner_one")}
        assert found == {name: (find_offset(image.segments, address),) for name, address in known.items()}
        code = bytes(file.read(found["one"][0], 4))
    assert len(code) == 4


def test_a_hostile_file_costs_no_more_than_its_size(tmp_path: Path) -> None:
    """One of which a hundred functions have one name is no file that a linker made."""
    functions = "".join(f'int f{n}(void) {{ return {n}; }}\n__asm__(".set twin{n:03}, f{n}");' for n in range(100))
    path = compile_c(tmp_path, "twins", functions + "int main(void) { return 0; }", "-O1")
    content = path.read_bytes()
    for number in range(100):
        content = content.replace(b"twin%03d\0" % number, b"twin\0\0\0\0")
    path.write_bytes(content)
    with File(str(path)) as file, pytest.raises(ElfError, match="have one name"):
        find_functions(read_image(file), {"twin"})


@pytest.fixture(scope="module")
def small_image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compile_c(tmp_path_factory.mktemp("fuzz"), "named", PROGRAM, "-O1").read_bytes()


@pytest.mark.spec("SEC-4")
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_damaged_image_is_an_error_or_an_answer(small_image: bytes, data: st.DataObject) -> None:
    """Bytes overwritten anywhere, the end cut off: an ElfError, or what is left of it."""
    content = bytearray(small_image)
    segments, sections = struct.unpack_from("<QQ", content, 32)
    tables = st.integers(segments, segments + 56 * 13) | st.integers(sections, len(content) - 1)
    for place in data.draw(st.lists(tables | st.integers(0, len(content) - 1), max_size=12)):
        content[place] = data.draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)))
    cut = data.draw(st.none() | st.integers(0, len(content)))
    try:
        image = read_image(Memory(bytes(content[:cut])))
        found = find_functions(image, {"one", "main", "printf"})
        needed = read_needed(image)
    except ElfError:
        return
    assert all(offsets for offsets in found.values())
    assert len(needed.names) + len(needed.folders) <= 4096


def test_each_version_of_a_library_function_is_found() -> None:
    """What the interpreter's own C library exports under one name, by its dynamic table."""
    mapped = parse_mappings(Path("/proc/self/maps").read_bytes())
    library = next(one.path for one in mapped if os.path.basename(one.path).startswith(("libc.so", "libc-")))
    with File(library) as file:
        found = find_functions(read_image(file), {"malloc", "pthread_cond_wait"})
    known = {name: set[int]() for name in found}
    for address, _, name in list_symbols(library, "-D"):
        if name in known:
            known[name].add(address)
    assert {name: len(offsets) for name, offsets in found.items()} == {name: len(one) for name, one in known.items()}
    assert found["malloc"]


def test_a_program_maps_the_files_that_are_told_before(tmp_path: Path) -> None:
    """The interpreter, its loader and what that loads; of a script, those of what runs it."""
    script = tmp_path / "script"
    script.write_text(f"#!{sys.executable} -S\nprint(open('/proc/self/maps').read())\n")
    script.chmod(0o755)
    told = {os.path.realpath(path) for path in iter_mapped_files(str(script), os.environ)}
    maps = subprocess.run([script], capture_output=True, check=True).stdout
    mapped = {os.path.realpath(one.path) for one in parse_mappings(maps.strip()) if one.is_file}
    beside = {path for path in mapped if "lib-dynload" not in path}
    assert beside
    assert beside <= told


def test_libraries_are_found_where_they_are_not_beside_the_loader(tmp_path: Path) -> None:
    """A loader that stands alone looks in the system's folders."""
    plain = compile_c(tmp_path, "plain", "int main(void) { return 0; }")
    told = list(iter_mapped_files(str(plain), {}))
    loader = tmp_path / "loader"
    shutil.copy(told[1], loader)
    alone = compile_c(tmp_path, "alone", "int main(void) { return 0; }", f"-Wl,--dynamic-linker={loader}")
    subprocess.run([alone], check=True)
    assert list(iter_mapped_files(str(alone), {}))[:2] == [str(alone), str(loader)]
    libraries = {os.path.realpath(path) for path in told[2:]}
    assert libraries
    assert libraries <= {os.path.realpath(path) for path in iter_mapped_files(str(alone), {})}


def test_preloaded_libraries_and_folders_come_first(tmp_path: Path) -> None:
    """As the loader takes them from the environment."""
    library = compile_c(tmp_path, "libown.so", "int own(void) { return 0; }", "-shared", "-fPIC")
    source = "int own(void);\nint main(void) { return own(); }"
    flags = [f"-L{tmp_path}", "-l:libown.so", "-Wl,-soname,x"]
    program = compile_c(tmp_path, "linked", source, *flags)
    with File(str(program)) as file:
        assert "libown.so" in read_needed(read_image(file)).names
    assert str(library) not in iter_mapped_files(str(program), {})
    assert str(library) in iter_mapped_files(str(program), {"LD_LIBRARY_PATH": str(tmp_path)})
    assert str(library) in iter_mapped_files(find_program("true") or "", {"LD_PRELOAD": str(library)})
    assert list(iter_mapped_files(str(tmp_path / "none"), {})) == []
    with pytest.raises(StopIteration):
        next(iter_mapped_files(str(tmp_path / "linked.c"), {}))
