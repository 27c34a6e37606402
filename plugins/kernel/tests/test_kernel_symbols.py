"""Names of running programs: held to what each program says of its own addresses."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np
import pytest
from compiled import compile_c, list_symbols, run_tool
from omn_kernel.symbols.demangling import demangle
from omn_kernel.symbols.frames import Symbol
from omn_kernel.symbols.index import SymbolIndex
from omn_kernel.symbols.kernel import parse_kallsyms
from omn_kernel.symbols.mappings import Mapping, parse_mappings, read_mappings
from omn_kernel.symbols.perf_map import find_map
from omn_kernel.symbols.spaces import MOST_REREADS, AddressSpaces
from omn_kernel.symbols.symboliser import Symboliser

TELLS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) int leaf(int x) { return x * 3 + getpid(); }
static __attribute__((noinline)) int hidden(int x) { return leaf(x) + LABEL; }
int main(int argc, char **argv) {
    void *anonymous = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char line[4096];
    printf("hidden %lx\\nleaf %lx\\ngetenv %lx\\nvdso %lx\\nanonymous %lx\\nready 0\\n", (long)hidden, (long)leaf,
           (long)dlsym(RTLD_DEFAULT, "getenv"), getauxval(AT_SYSINFO_EHDR), (long)anonymous);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        void *library;
        line[strcspn(line, "\\n")] = 0;
        library = dlopen(line, RTLD_NOW);
        printf("%s %lx\\nready 0\\n", "loaded", library ? (long)dlsym(library, "loaded") : 0L);
        fflush(stdout);
    }
    return hidden(argc) == 12345 + (argv == 0);
}
""".replace("#include <unistd.h>", "#include <string.h>\n#include <unistd.h>")
LIBRARY = "int loaded(int x) { return x * 5; }\n"


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Teller:
    """A running program that says where its functions are, and waits."""

    def __init__(self, process: subprocess.Popen[str], pid: int | None = None) -> None:
        self.process = process
        self.pid = process.pid if pid is None else pid
        self.places: dict[str, int] = {}
        self.listen()

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            name, _, address = line.rpartition(" ")
            if name == "ready":
                return
            self.places[name] = int(address, 16)
        raise AssertionError("the program ended")

    def load(self, library: Path) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{library}\n")
        self.process.stdin.flush()
        self.listen()

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@contextlib.contextmanager
def telling(*command: str) -> Iterator[Teller]:
    with subprocess.Popen(list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        teller = Teller(process)
        try:
            yield teller
        finally:
            if process.poll() is None:
                teller.end()


def name(symboliser: Symboliser, pid: int, *ips: int, at_ns: int | None = None) -> list[Symbol]:
    """Name addresses as of now."""
    times = np.full(len(ips), now() if at_ns is None else at_ns, np.int64)
    frames = symboliser.resolve(pid, np.array(ips, np.uint64), times)
    return [symboliser.symbols[one] for one in frames.symbol.tolist()]


def build(folder: Path, label: int = 1, *flags: str) -> Path:
    return compile_c(folder, "teller", TELLS, "-O1", f"-DLABEL={label}", "-ldl", "-Wl,--build-id=sha1", *flags)


@pytest.mark.spec("STK-3", "STK-5")
@pytest.mark.parametrize(
    "flags", [(), ("-no-pie",), ("-Wl,-z,separate-code",), ("-Wl,-z,noseparate-code",)], ids=" ".join
)
def test_functions_of_a_running_program_are_named_as_it_calls_them(flags: tuple[str, ...], tmp_path: Path) -> None:
    """Its own, a local one, a library's, with their objects, offsets and who named them."""
    path = build(tmp_path, 1, *flags)
    with telling(str(path)) as teller:
        symboliser = Symboliser(AddressSpaces())
        ips = [teller.places[one] + offset for one in ("hidden", "leaf", "getenv") for offset in (0, 3)]
        frames = symboliser.resolve(teller.pid, np.array(ips, np.uint64), np.full(6, now(), np.int64))
        found = [symboliser.symbols[one] for one in frames.symbol.tolist()]
        assert [one.name for one in found] == ["hidden", "hidden", "leaf", "leaf", "getenv", "getenv"]
        assert frames.offset.tolist() == [0, 3] * 3
        assert {one.path for one in found[:4]} == {str(path)}
        assert {one.named_by for one in found[:4]} == {"symtab"}
        assert found[4].path is not None
        assert "libc" in found[4].path
        assert found[0].start == next(start for start, _, called in list_symbols(path) if called == "hidden")
        assert found[0].build_id is not None
        assert symboliser.notes == ()


@pytest.mark.spec("STK-3", "STK-7")
def test_a_stripped_program_is_not_guessed_at(tmp_path: Path) -> None:
    """A function without a symbol is the object and the address in it, named by nobody."""
    path = build(tmp_path)
    (start,) = (start for start, _, called in list_symbols(path) if called == "hidden")
    run_tool("strip", str(path))
    with telling(str(path)) as teller:
        (found,) = name(Symboliser(AddressSpaces()), teller.pid, teller.places["hidden"])
    assert (found.name, found.named_by, found.path, found.start) == (None, None, str(path), start)
    assert found.label == f"teller+{start:#x}"


@pytest.mark.spec("STK-3")
def test_a_stripped_program_is_named_by_the_debug_file_beside_it(tmp_path: Path) -> None:
    """By the name and the checksum that it carries; a debug file of another build names nothing."""
    path = build(tmp_path)
    debug = tmp_path / ".debug" / "teller.debug"
    debug.parent.mkdir()
    run_tool("objcopy", "--only-keep-debug", str(path), str(debug))
    run_tool("objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", str(path))
    with telling(str(path)) as teller:
        (found,) = name(Symboliser(AddressSpaces()), teller.pid, teller.places["hidden"])
        assert (found.name, found.named_by) == ("hidden", "debug file")
        debug.write_bytes(debug.read_bytes() + b"\0")
        (found,) = name(Symboliser(AddressSpaces()), teller.pid, teller.places["hidden"])
        assert found.name is None


@pytest.mark.spec("STK-3")
def test_a_stripped_program_is_named_by_the_debug_file_of_its_build(tmp_path: Path) -> None:
    """Found by the build id under a root's /usr/lib/debug, and held to it."""
    path = build(tmp_path)
    start, size, _ = next(one for one in list_symbols(path) if one[2] == "hidden")
    identifier = run_tool("readelf", "-n", str(path)).partition("Build ID: ")[2].split()[0]
    debug = tmp_path / "usr/lib/debug/.build-id" / identifier[:2] / f"{identifier[2:]}.debug"
    debug.parent.mkdir(parents=True)
    run_tool("objcopy", "--only-keep-debug", str(path), str(debug))
    run_tool("strip", str(path))
    for build_id, truth in ((identifier, "hidden"), ("00" * 20, None)):
        spaces = AddressSpaces()
        spaces.note_mapping(1 << 22, Mapping(0x10000, 0x20000, path="/teller", build_id=build_id), 0)
        symboliser = Symboliser(spaces, str(tmp_path))
        (found,) = name(symboliser, 1 << 22, 0x10000 + start + size - 1)
        assert found.name == truth
    assert symboliser.notes == ("no names for /teller: another file stands at its path now",)


@pytest.fixture(params=[True, False], ids=["map_files", "paths"])
def reaches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether this user may open /proc/<pid>/map_files; without, the exe link and paths that are checked must do."""
    if not request.param:
        monkeypatch.setattr("omn_kernel.symbols.files._find_range", lambda *_: None)
    return bool(request.param)


@pytest.mark.spec("STK-5")
@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_a_program_that_is_gone_from_its_path_is_named_while_it_runs_and_refused_after(
    replaced: bool, reaches: bool, tmp_path: Path
) -> None:
    """The file that it executes is read, and never the one that stands at its path now."""
    path = build(tmp_path)
    with telling(str(path)) as teller:
        path.unlink()
        if replaced:
            (tmp_path / "other").mkdir()
            shutil.copy(compile_c(tmp_path / "other", "teller", "int hidden;\nint main(void) { return 0; }\n"), path)
        symboliser = Symboliser(AddressSpaces())
        assert [one.name for one in name(symboliser, teller.pid, teller.places["hidden"])] == ["hidden"]
        spaces = AddressSpaces()
        spaces.note_running(teller.pid, parse_mappings(Path(f"/proc/{teller.pid}/maps").read_bytes()), 0)
        teller.end()
        late = Symboliser(spaces)
        (found,) = name(late, teller.pid, teller.places["hidden"])
        assert (found.name, found.named_by) == (None, None)
        said = "another file stands at its path now" if replaced else "it was deleted"
        assert late.notes == (f"no names for {path}: {said}",)


@pytest.mark.spec("STK-5")
def test_a_program_in_another_mount_namespace_is_read_through_its_own_root(reaches: bool, tmp_path: Path) -> None:
    """Another file stands at the same path here: it is never asked."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can mount in a namespace of its own")
    path = build(tmp_path)
    inner = tmp_path / "inner"
    inner.mkdir()
    shutil.copy(
        compile_c(inner, "other", TELLS.replace("hidden", "renamed"), "-O1", "-DLABEL=2", "-ldl"), inner / "bin"
    )
    script = 'mount --bind "$1" "$2" && exec "$2"'
    with telling("unshare", "-m", "sh", "-c", script, "sh", str(inner / "bin"), str(path)) as teller:
        (found,) = name(Symboliser(AddressSpaces()), teller.pid, teller.places["renamed"])
        assert (found.name, found.path) == ("renamed", str(path))
        spaces = AddressSpaces()
        spaces.note_running(teller.pid, parse_mappings(Path(f"/proc/{teller.pid}/maps").read_bytes()), 0)
        teller.end()
        late = Symboliser(spaces)
        (found,) = name(late, teller.pid, teller.places["renamed"])
        assert found.name is None
        assert late.notes == (f"no names for {path}: another file stands at its path now",)


@pytest.mark.spec("STK-5")
def test_another_file_of_the_same_number_on_another_file_system_is_not_taken_for_it(
    tmp_path: Path,
) -> None:
    """Fresh file systems number their files alike: the device tells them apart once the process is gone."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can mount in a namespace of its own")
    path = build(tmp_path)
    place = tmp_path / "place"
    place.mkdir()
    script = 'mount -t tmpfs tmpfs "$1" && cp "$2" "$1/teller" && exec "$1/teller"'
    with telling("unshare", "-m", "sh", "-c", script, "sh", str(place), str(path)) as teller:
        assert name(Symboliser(AddressSpaces()), teller.pid, teller.places["hidden"])[0].name == "hidden"
        mappings = parse_mappings(Path(f"/proc/{teller.pid}/maps").read_bytes())
        spaces = AddressSpaces()
        spaces.note_running(teller.pid, mappings, 0)
        # Mounted while the other still is: a device's number is given again once nothing has it.
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(place)], check=True)
        try:
            other = place / "teller"
            shutil.copy(path, other)
            assert next(one for one in mappings if one.path == str(other)).inode == other.stat().st_ino
            teller.end()
            late = Symboliser(spaces)
            assert name(late, teller.pid, teller.places["hidden"])[0].name is None
            assert late.notes == (f"no names for {other}: another file stands at its path now",)
        finally:
            subprocess.run(["umount", str(place)], check=True)


@pytest.mark.spec("STK-5")
def test_a_program_that_was_followed_is_named_after_it_ended_and_its_file_was_deleted(tmp_path: Path) -> None:
    """Its files are held from the first tick after they were mapped, and let go at the close."""
    path = build(tmp_path)
    library = compile_c(tmp_path, "library.so", LIBRARY, "-shared", "-fPIC")
    before = len(os.listdir("/proc/self/fd"))
    with telling(str(path)) as teller:
        spaces = AddressSpaces()
        symboliser = Symboliser(spaces)
        symboliser.follow(teller.pid, now())
        teller.load(library)
        mapped = parse_mappings(Path(f"/proc/{teller.pid}/maps").read_bytes())
        (one,) = (one for one in mapped if one.path == str(library))
        spaces.note_mapping(teller.pid, one, now())
        symboliser.read_growth()
        path.unlink()
        library.unlink()
        teller.end()
    found = name(symboliser, teller.pid, teller.places["hidden"], teller.places["loaded"])
    assert [one.name for one in found] == ["hidden", "loaded"]
    symboliser.close()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.spec("STK-5")
def test_files_that_nobody_closed_are_let_go_with_their_symboliser(tmp_path: Path) -> None:
    """A run that fails half-way leaves no descriptor behind."""
    with telling(str(build(tmp_path))) as teller:
        before = len(os.listdir("/proc/self/fd"))
        symboliser = Symboliser(AddressSpaces())
        symboliser.follow(teller.pid, now())
        assert len(os.listdir("/proc/self/fd")) > before
        del symboliser
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.spec("STK-5")
def test_no_more_files_are_held_than_a_share_of_what_may_be_open(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The rest of a run needs files too: what is past the share is opened when it is asked for."""
    monkeypatch.setattr("omn_kernel.symbols.held._MOST_HELD", 1)
    path = build(tmp_path)
    with telling(str(path)) as teller:
        before = len(os.listdir("/proc/self/fd"))
        symboliser = Symboliser(AddressSpaces())
        symboliser.follow(teller.pid, now())
        assert len(os.listdir("/proc/self/fd")) == before + 1
        found = name(symboliser, teller.pid, teller.places["hidden"], teller.places["getenv"])
        assert [one.name for one in found] == ["hidden", "getenv"]
        symboliser.close()


@pytest.mark.spec("STK-5")
def test_a_program_on_an_overlay_is_named(reaches: bool, tmp_path: Path) -> None:
    """Images of containers are: the number that stat gives its device is not the one that it is mapped under."""
    if os.geteuid() != 0 or "overlay" not in Path("/proc/filesystems").read_text():
        pytest.skip("only root can mount an overlay, where the kernel has it")
    path = build(tmp_path)
    script = """
    cd "$1" && mount -t tmpfs tmpfs space && cd space && mkdir lower upper work merged && cp "$2" lower/teller &&
    mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged && exec "$1/space/merged/teller"
    """
    (tmp_path / "space").mkdir()
    with telling("unshare", "-m", "sh", "-c", script, "sh", str(tmp_path), str(path)) as teller:
        (found,) = name(Symboliser(AddressSpaces()), teller.pid, teller.places["hidden"])
    assert (found.name, found.path) == ("hidden", f"{tmp_path}/space/merged/teller")


@pytest.mark.spec("STK-7")
def test_an_address_in_nothing_known_has_the_maps_read_again_so_often_and_no_more(tmp_path: Path) -> None:
    """A library that was loaded since is found; an address in nothing is unknown, and costs no more readings."""
    path = build(tmp_path)
    library = compile_c(tmp_path, "library.so", LIBRARY, "-shared", "-fPIC")
    with telling(str(path)) as teller:
        spaces = AddressSpaces()
        symboliser = Symboliser(spaces)
        symboliser.follow(teller.pid, now())
        teller.load(library)
        (found,) = name(symboliser, teller.pid, teller.places["loaded"])
        assert (found.name, found.path) == ("loaded", str(library))
        (space,) = spaces.get_spaces(teller.pid)
        assert space.rereads_left == MOST_REREADS - 1
        for _ in range(MOST_REREADS + 2):
            (found,) = name(symboliser, teller.pid, 0x1234)
        assert (found.label, found.path, found.named_by) == ("[unknown]", None, None)
        assert space.rereads_left == 0


@pytest.mark.spec("STK-7")
def test_what_a_record_told_of_is_not_put_under_itself(tmp_path: Path) -> None:
    """A record names a file by its build and /proc by its inode; what is mapped as it was told is the same memory."""
    with telling(str(build(tmp_path))) as teller:
        spaces = AddressSpaces()
        told = read_mappings("/", teller.pid)
        for one in told[:-1]:
            spaces.note_mapping(teller.pid, attrs.evolve(one, inode=None, device=None, build_id="00" * 20), now())
        name(Symboliser(spaces), teller.pid, 0x1234)
        (space,) = spaces.get_spaces(teller.pid)
        assert sorted(one.place for one in space.mappings) == sorted(one.place for one in told)


@pytest.mark.spec("STK-3")
def test_a_program_that_was_executed_since_names_nothing_of_the_one_before(tmp_path: Path) -> None:
    """The samples of before are not looked up in the memory of after."""
    path = build(tmp_path)
    with telling(str(path)) as teller:
        spaces = AddressSpaces()
        executed = now()
        spaces.note_exec(teller.pid, executed - 10**9)
        spaces.note_exec(teller.pid, executed)
        (before,) = name(Symboliser(spaces), teller.pid, teller.places["hidden"], at_ns=executed - 5)
        (after,) = name(Symboliser(spaces), teller.pid, teller.places["hidden"])
        assert (before.label, after.label) == ("[unknown]", "hidden")


@pytest.mark.spec("STK-3")
def test_a_pid_that_another_process_has_now_is_not_asked(tmp_path: Path) -> None:
    """A sample taken before the process of that pid began was another's."""
    path = build(tmp_path)
    with telling(str(path)) as teller:
        (found,) = name(Symboliser(AddressSpaces()), teller.pid, teller.places["hidden"], at_ns=1)
    assert found.label == "[unknown]"


@pytest.mark.spec("STK-3", "STK-7")
def test_anonymous_code_is_named_by_the_perf_map_alone(tmp_path: Path) -> None:
    """Without one it is [anon]; with one a line's name, and no file's function takes a line's."""
    path = build(tmp_path)
    with telling(str(path)) as teller:
        place, hidden = teller.places["anonymous"], teller.places["hidden"]
        symboliser = Symboliser(AddressSpaces())
        (found,) = name(symboliser, teller.pid, place + 5)
        assert (found.label, found.named_by, found.path) == ("[anon]", None, "[anon]")
        perf_map = Path(find_map(teller.pid))
        try:
            perf_map.write_text(f"{place:x} 10 a;b c 7\n{hidden:x} 10 wrong\n")
            jitted, own, past = name(symboliser, teller.pid, place + 5, hidden, place + 0x10)
            assert (jitted.name, jitted.named_by, jitted.start) == ("a;b c 7", "perf-map", place)
            assert (own.name, past.label) == ("hidden", "[anon]")
            symboliser.close()
        finally:
            perf_map.unlink()


@pytest.mark.spec("STK-3")
def test_a_perf_map_read_at_ticks_names_a_process_that_ended(tmp_path: Path) -> None:
    """It is gone with its process: what was read while it grew still names."""
    path = build(tmp_path)
    with telling(str(path)) as teller:
        symboliser = Symboliser(AddressSpaces())
        symboliser.follow(teller.pid, now())
        perf_map = Path(find_map(teller.pid))
        try:
            symboliser.read_growth()
            perf_map.write_text(f"{teller.places['anonymous']:x} 10 early\n")
            symboliser.read_growth()
        finally:
            perf_map.unlink()
        teller.end()
        (found,) = name(symboliser, teller.pid, teller.places["anonymous"])
        assert (found.name, found.named_by) == ("early", "perf-map")
        symboliser.close()


@pytest.mark.spec("STK-3")
def test_the_perf_map_of_a_program_in_a_pid_namespace_goes_by_its_pid_there(tmp_path: Path) -> None:
    """/tmp/perf-1.map of the first process there, and not the one of the pid seen from here."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can make a pid namespace")
    path = build(tmp_path)
    script = 'mount -t tmpfs tmpfs /tmp && exec "$1"'
    held = os.open(path, os.O_RDONLY)
    command = ["unshare", "-m", "-p", "-f", "--kill-child", "sh", "-c", script, "sh", f"/proc/{os.getpid()}/fd/{held}"]
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            teller = Teller(process)
            teller.pid = int(children.read_text().split()[0])
            Path(f"/proc/{teller.pid}/root{find_map(1)}").write_text(f"{teller.places['anonymous']:x} 10 inner\n")
            symboliser = Symboliser(AddressSpaces())
            jitted, own = name(symboliser, teller.pid, teller.places["anonymous"], teller.places["hidden"])
            symboliser.close()
            teller.end()
    finally:
        os.close(held)
    assert (jitted.name, own.name) == ("inner", "hidden")


@pytest.mark.spec("STK-3")
def test_functions_of_the_vdso_are_named(tmp_path: Path) -> None:
    """As the image's own dynamic symbols call them, read from this process's memory."""
    path = build(tmp_path)
    own = next(one for one in parse_mappings(Path("/proc/self/maps").read_bytes()) if one.path == "[vdso]")
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        memory.seek(own.start)
        (tmp_path / "vdso.so").write_bytes(memory.read(own.end - own.start))
    truth = list_symbols(tmp_path / "vdso.so", "-D")
    assert truth
    with telling(str(path)) as teller:
        ips = [teller.places["vdso"] + start for start, _, _ in truth]
        found = name(Symboliser(AddressSpaces()), teller.pid, *ips)
    for symbol, (start, _, _) in zip(found, truth, strict=True):
        assert symbol.name in {called for place, _, called in truth if place == start}
        assert (symbol.named_by, symbol.path) == ("vdso", "[vdso]")


@pytest.mark.spec("STK-5")
def test_a_32_bit_program_is_named_with_its_vdso(tmp_path: Path) -> None:
    """Its addresses are of 32 bits, and its vdso is another image, read from its own memory."""
    source = """
    static int write_all(const char *from, int size) {
        int done;
        __asm__ volatile("int $0x80" : "=a"(done) : "a"(4), "b"(1), "c"(from), "d"(size) : "memory");
        return done;
    }
    int leaf(int x) { return x * 3; }
    void _start(void) {
        char c;
        int done;
        write_all("ready 0\\n", 8);
        do __asm__ volatile("int $0x80" : "=a"(done) : "a"(3), "b"(0), "c"(&c), "d"(1) : "memory"); while (done > 0);
        __asm__ volatile("int $0x80" : : "a"(1), "b"(leaf(0)));
    }
    """
    flags = ("-m32", "-nostdlib", "-static", "-no-pie", "-fno-stack-protector", "-O1", "-fcf-protection=none")
    path = compile_c(tmp_path, "small", source, *flags)
    truth = {called: start for start, _, called in list_symbols(path)}
    with telling(str(path)) as teller:
        vdso = next(
            one for one in parse_mappings(Path(f"/proc/{teller.pid}/maps").read_bytes()) if one.path == "[vdso]"
        )
        with open(f"/proc/{teller.pid}/mem", "rb", buffering=0) as memory:
            memory.seek(vdso.start)
            (tmp_path / "vdso32.so").write_bytes(memory.read(vdso.end - vdso.start))
        start, _, called = next(one for one in list_symbols(tmp_path / "vdso32.so", "-D") if one[1])
        own, kernels = name(Symboliser(AddressSpaces()), teller.pid, truth["_start"], vdso.start + start)
    assert (own.name, kernels.name, kernels.named_by) == ("_start", called, "vdso")


class Found(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    _fields_ = (
        ("path", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("start", ctypes.c_void_p),
    )


@pytest.mark.spec("STK-3")
def test_functions_of_this_process_are_what_dladdr_calls_them() -> None:
    """Of the interpreter and of libc, at their starts."""
    library = ctypes.CDLL(None)
    exported = [
        "PyObject_Repr", "PyList_New", "PyDict_SetItem", "Py_BytesMain", "PyEval_EvalCode", "PyUnicode_New",
        "malloc", "qsort", "getenv", "strtol", "pthread_create", "fopen",
    ]  # fmt: skip
    places = [ctypes.cast(getattr(library, one), ctypes.c_void_p).value or 0 for one in exported]
    symboliser = Symboliser(AddressSpaces())
    frames = symboliser.resolve(os.getpid(), np.array(places, np.uint64), np.full(len(places), now(), np.int64))
    for place, number, offset in zip(places, frames.symbol.tolist(), frames.offset.tolist(), strict=True):
        truth = Found()
        assert library.dladdr(ctypes.c_void_p(place), ctypes.byref(truth))
        found = symboliser.symbols[number]
        assert found.path == os.path.realpath(truth.path.decode())
        assert place - offset == truth.start
        assert found.name is not None
        names = {called for start, _, called in list_symbols(found.path, "-D") if start == found.start}
        assert found.name in names or found.named_by == "debug file"


@pytest.mark.spec("STK-3")
def test_the_kernels_functions_are_those_of_kallsyms() -> None:
    """At the start of each one of a sample, among the names that kallsyms gives that address."""
    lines = [line.split(None, 2) for line in Path("/proc/kallsyms").read_bytes().splitlines()]
    names: dict[int, set[str]] = {}
    for address, kind, rest in lines:
        if kind in b"tTwW" and int(address, 16):
            names.setdefault(int(address, 16), set()).add(rest.split(b"\t")[0].decode())
    if not names:
        symboliser = Symboliser(AddressSpaces())
        assert name(symboliser, os.getpid(), (1 << 64) - 4096)[0].label == "[kernel]"
        assert "hidden" in symboliser.notes[0]
        return
    sample = sorted(one for one in names if one >= 1 << 63)[::97]
    symboliser = Symboliser(AddressSpaces())
    for address, found in zip(sample, name(symboliser, os.getpid(), *sample), strict=True):
        assert found.name in names[address]
        assert (found.named_by, found.is_kernel, found.start) == ("kallsyms", True, address)


@pytest.mark.spec("STK-3")
def test_kallsyms_without_addresses_names_nothing() -> None:
    """Zeros are hidden, and no addresses; a function reaches to the next symbol, a module's last to its page's end."""
    assert parse_kallsyms(b"0000000000000000 T _stext\n0000000000000000 T f\n") is None
    assert parse_kallsyms(b"") is None
    assert parse_kallsyms(b"garbage\n\xff\n") is None
    parsed = parse_kallsyms(
        b"ffffffff81000000 T first\nffffffff81000010 d data\nffffffff81000020 t second\n"
        b"ffffffffa0000100 t last\t[one]\nffffffffa0009000 t other\t[two]\n"
    )
    assert parsed is not None
    index = SymbolIndex([parsed.functions])
    asked = (0x81000000, 0x8100000F, 0x81000010, 0x81000020, 0x81000FFF, 0x81001000, 0xA0000100, 0xA0000FFF, 0xA0001000)
    found = index.find(np.array([0xFFFFFFFF00000000 + one for one in asked], np.uint64)).tolist()
    assert [None if one < 0 else index.list_names(np.array([one]))[0] for one in found] == [
        b"first", b"first", None, b"second", b"second", None, b"last", b"last", None,
    ]  # fmt: skip


@pytest.mark.spec("STK-4")
def test_names_are_spelt_in_their_languages_and_the_linkers_spelling_is_kept(tmp_path: Path) -> None:
    """Rust of both manglings and C++; a suffix of the linker stays; a name that is not read whole is the linker's."""
    assert demangle(
        [
            "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
            "_RNvCs1234_7mycrate3foo",
            "_ZNSt6vectorIiSaIiEE9push_backEOi",
            "_ZN3foo3barEv@plt",
            "printf",
            "_Zxyz",
            "_Z\udcff",
            "",
        ]
    ) == [
        "core::fmt::Formatter::pad",
        "mycrate::foo",
        "std::vector<int, std::allocator<int> >::push_back(int&&)",
        "foo::bar()@plt",
        "printf",
        "_Zxyz",
        "_Z\udcff",
        "",
    ]
    path = build(tmp_path, 1, "-Dhidden=_ZN3foo6hiddenEi")
    with telling(str(path)) as teller:
        found, plain = name(Symboliser(AddressSpaces()), teller.pid, teller.places["hidden"], teller.places["leaf"])
    assert (found.name, found.mangled) == ("foo::hidden(int)", "_ZN3foo6hiddenEi")
    assert plain.mangled is None


@pytest.mark.spec("STK-4", "SEC-4")
def test_a_name_that_refers_back_to_itself_costs_no_more_than_it_shows() -> None:
    """Two hundred characters can spell a megabyte: such a name stays as it is, and many of them cost what few do."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    bomb = "_RINvC1a1fTmmE"
    place = len("_RINvC1a1f") - 2
    for _ in range(30):
        here, reference = len(bomb) - 2, ""
        number = place - 1
        while True:
            reference = digits[number % 62] + reference
            number //= 62
            if not number:
                break
        bomb += f"TB{reference}_B{reference}_E"
        place = here
    bomb += "E"
    assert demangle([bomb]) == [bomb]
    assert demangle([bomb + str(one) for one in range(100_000)])[-1] == bomb + "99999"


def test_an_answer_for_nothing_is_empty() -> None:
    """No address is no frame."""
    frames = Symboliser(AddressSpaces()).resolve(os.getpid(), np.empty(0, np.uint64), np.empty(0, np.int64))
    assert (len(frames.symbol), len(frames.offset)) == (0, 0)


def test_a_process_of_which_nothing_is_known_any_more_is_unknown() -> None:
    """It ended before anything was heard of it."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        symboliser = Symboliser(AddressSpaces())
        symboliser.follow(process.pid, now())
        assert [one.label for one in name(symboliser, process.pid, 0x1000)] == ["[unknown]"]


def test_what_can_be_no_address_has_no_kernel_asked(tmp_path: Path) -> None:
    """A walk that took something else for a frame finds any number: those between both halves of memory are nobody's.

    Here the kernel's functions cannot be read, and nobody tried.
    """
    symboliser = Symboliser(AddressSpaces(), str(tmp_path))
    strange = (1 << 63, 0x8948555441000000, 0xFFF0F1FFE820247B, 0xFFFF7FFFFFFFFFFF)
    assert [one.label for one in name(symboliser, 1, *strange)] == ["[unknown]"] * len(strange)
    assert symboliser.notes == ()
    assert [one.label for one in name(symboliser, 1, 0xFFFF800000000000)] == ["[kernel]"]
    assert len(symboliser.notes) == 1


def test_processes_that_are_named_together_are_named_as_each_alone(tmp_path: Path) -> None:
    """Two programs that have other functions at the same addresses, and the kernel, in one call."""
    programs = []
    for label in (1, 2):
        (tmp_path / str(label)).mkdir()
        programs.append(str(build(tmp_path / str(label), label, "-no-pie")))
    with telling(programs[0]) as one, telling(programs[1]) as other:
        symboliser = Symboliser(AddressSpaces())
        asked = [(teller.process.pid, ip) for teller in (one, other) for ip in teller.places.values()]
        asked += [(teller.process.pid, 0x1) for teller in (one, other)]
        pids, ips = np.array([pid for pid, _ in asked], np.int32), np.array([ip for _, ip in asked], np.uint64)
        for pid in set(pids.tolist()):
            symboliser.follow(pid, now())
        times = np.full(len(ips), now(), np.int64)
        together = symboliser.resolve_all(pids, ips, times)
        for place, (pid, ip) in enumerate(asked):
            alone = symboliser.resolve(pid, np.array([ip], np.uint64), times[:1])
            assert (together.symbol[place], together.offset[place]) == (alone.symbol[0], alone.offset[0])
        assert len({symboliser.symbols[number].path for number in together.symbol.tolist()}) > 2
