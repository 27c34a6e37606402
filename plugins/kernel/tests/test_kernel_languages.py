"""Call trees of C++ and Rust: names as their sources spell them, walks over what their runtimes put in between."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from call_trees import list_outward
from closed_events import hold_served
from compiled import run_tool

from omn_core.testing.fixtures import Command

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks are walked on x86-64 alone")

CPP = r"""
#include <cstdint>
#include <string>

volatile uint64_t sink;

namespace engine {
[[gnu::noipa]] void burn(int n) { for (int i = 0; i < n * 1000; i++) sink = sink + i; }

template <typename Held, int Size> struct Box {
    Held held[Size];
    [[gnu::noipa]] Held work(Held by) const { burn(20000); sink = sink + 1; return held[0] + by; }
};

namespace {
[[gnu::noipa]] int hidden(const Box<long, 2> &box) { int found = box.work(2); sink = sink + 1; return found; }
}

template <typename Call> [[gnu::noipa]] int apply(Call call, int n)
{
    int found = call(n);
    sink = sink + 1;
    return found;
}

struct Guard { [[gnu::noipa]] ~Guard() { burn(20000); sink = sink + 1; } };
struct Heavy { std::string why; [[gnu::noipa]] ~Heavy() { burn(20000); sink = sink + 1; } };

[[gnu::noipa]] int throwing(int n) { Guard guard; if (n) throw Heavy{"on purpose"}; return n; }
[[gnu::noipa]] int catching(int n)
{
    try { return throwing(n) + 1; }
    catch (const Heavy &heavy) { return (int)heavy.why.size(); }
}
}

int main()
{
    const engine::Box<long, 2> box{{1, 2}};
    auto call = [&box](int n) __attribute__((noipa)) {
        int found = engine::hidden(box);
        sink = sink + 1;
        return found + n;
    };
    engine::apply(call, 1);
    sink = sink + engine::catching(1);
    return 0;
}
"""

RUST = r"""
use std::fmt::Display;
use std::hint::black_box;
mod engine {
    use super::*;
    #[inline(never)]
    pub fn burn(n: u64) -> u64 {
        let mut sum = 0;
        for i in 0..n * 1000 { sum = black_box(sum + i); }
        sum
    }
    pub trait Work { fn work(&self, n: u64) -> u64; }
    pub struct Holder<T>(pub T);
    impl<T: Display> Work for Holder<T> {
        #[inline(never)]
        fn work(&self, n: u64) -> u64 { black_box(burn(n)) + 1 }
    }
    #[inline(never)]
    pub fn apply<F: Fn(u64) -> u64>(call: F, n: u64) -> u64 { black_box(call(n)) + 1 }
}
fn main() {
    use engine::Work;
    let holder = engine::Holder(7u8);
    black_box(engine::apply(#[inline(never)] |n| black_box(holder.work(n)) + 1, 20000));
}
"""

LEGACY = (
    "tree::engine::burn",
    "<tree::engine::Holder<T> as tree::engine::Work>::work",
    "tree::main::{{closure}}",
    "tree::engine::apply",
    "tree::main",
)
V0 = (
    "tree::engine::burn",
    "<tree::engine::Holder<u8> as tree::engine::Work>::work",
    "tree::main::{closure#0}",
    "tree::engine::apply::<tree::main::{closure#0}>",
    "tree::main",
)


def compile_with(compiler: str, source: Path, name: str, *flags: str) -> Path:
    """Compile beside the source. Skips where the compiler is not installed."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed here")
    path = source.with_name(name)
    done = subprocess.run([compiler, str(source), "-o", str(path), *flags], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


def profile(omn: Command, *programs: Path) -> Any:
    """Profile programs that run one after another, their stacks walked by unwind information."""
    words = ("sh", "-c", "; ".join(shlex.quote(str(one)) for one in programs))
    done = omn("cpu.profile", "-e", "stack", "--stack", "dwarf", "--hz", "3989", "--format", "json", "--", *words)
    hold_served(done.code, done.stderr)
    return done.result


def list_inside(result: Any, leaf: str, outermost: str) -> set[tuple[str, ...]]:
    """List the calls from a function out to another that are not all of its stacks' last."""
    return {stack[: stack.index(outermost) + 1] for stack in list_outward(result, leaf) if outermost in stack}


@pytest.mark.spec("STK-2", "STK-4")
def test_calls_of_cpp_are_spelt_as_its_source_has_them(tmp_path: Path, omn: Command) -> None:
    """Templates, a lambda, a namespace without a name; destructors that an exception runs, out of the code set apart
    for it and out of the runtime's own library."""
    source = tmp_path / "tree.cc"
    source.write_text(CPP)
    program = compile_with("g++", source, "tree", "-O2", "-std=c++17", "-fomit-frame-pointer")
    result = profile(omn, program)
    stacks = list_inside(result, "engine::burn(int)", "main")
    thrown = {stack for stack in stacks if "engine::Heavy::~Heavy()" in stack}
    assert stacks - thrown == {
        (
            "engine::burn(int)",
            "engine::Box<long, 2>::work(long) const",
            "engine::(anonymous namespace)::hidden(engine::Box<long, 2> const&)",
            "main::{lambda(int)#1}::operator()(int) const",
            "int engine::apply<main::{lambda(int)#1}>(main::{lambda(int)#1}, int)",
            "main",
        ),
        (
            "engine::burn(int)",
            "engine::Guard::~Guard()",
            "engine::throwing(int) [clone .cold]",
            "engine::catching(int)",
            "main",
        ),
    }
    assert {(*stack[:2], *stack[-2:]) for stack in thrown} == {
        ("engine::burn(int)", "engine::Heavy::~Heavy()", "engine::catching(int) [clone .cold]", "main")
    }
    rows = [row for row in result["series"][0]["emits"]["stack"]["rows"] if "engine::Heavy::~Heavy()" in row["frames"]]
    for row in rows:
        begin = row["frames"].index("engine::Heavy::~Heavy()") + 1
        between = row["objects"][begin : row["frames"].index("engine::catching(int) [clone .cold]")]
        assert {os.path.basename(path).partition(".")[0] for path in between} == {"libstdc++"}


@pytest.mark.spec("STK-2", "STK-4", "STK-5")
def test_calls_of_rust_are_spelt_as_its_source_has_them_in_both_manglings(tmp_path: Path, omn: Command) -> None:
    """Walked out of a program whose linker lets the pages of its segments overlap, as rustc's own does."""
    source = tmp_path / "tree.rs"
    source.write_text(RUST)
    flags = ("-C", "opt-level=2", "--crate-name", "tree", "-C", "force-frame-pointers=no")
    programs = [
        compile_with("rustc", source, "first", *flags),
        compile_with("rustc", source, "second", *flags, "-C", "symbol-mangling-version=v0"),
    ]
    is_legacy = "_ZN4tree6engine4burn" in run_tool("nm", str(programs[0]))  # what rustc does unasked changes one day
    stacks = list_inside(profile(omn, *programs), "tree::engine::burn", "tree::main")
    assert stacks == ({LEGACY, V0} if is_legacy else {V0})


PYTHON = """
import os, time
def leaf(n):
    total = 0
    for i in range(n):
        total += i * i
    return total
def caller():
    end = time.process_time() + 0.15
    while time.process_time() < end:
        leaf(20000)
caller()
os.unlink(f"/tmp/perf-{os.getpid()}.map")
"""


def find_python() -> str:
    """Find an interpreter that writes perf maps (3.12), on the path or installed beside this one. Skips without."""
    beside = Path(sys.base_prefix).parent
    probe = "import os, sys; sys.activate_stack_trampoline('perf'); os.unlink(f'/tmp/perf-{os.getpid()}.map')"
    for name in ("python3.12", "python3.13", "python3.14"):
        for found in (shutil.which(name), *map(str, sorted(beside.glob(f"*/bin/{name}")))):
            if found and subprocess.run([found, "-c", probe], capture_output=True, check=False).returncode == 0:
                return found
    pytest.skip("no CPython that writes perf maps (3.12) is installed here")


@pytest.mark.spec("STK-3", "STK-7")
def test_functions_of_python_are_named_by_the_map_that_it_writes(tmp_path: Path, omn: Command) -> None:
    """Under `-X perf` the interpreter's own callees stand inside the function; who called that is not made up."""
    python = find_python()
    script = tmp_path / "burn.py"
    script.write_text(PYTHON)
    words = ("--stack", "dwarf", "--hz", "1999", "--format", "json", "--", python, "-X", "perf", str(script))
    done = omn("cpu.profile", "-e", "stack", *words)
    hold_served(done.code, done.stderr)
    rows = done.result["series"][0]["emits"]["stack"]["rows"]
    function = f"py::leaf:{script}"
    inside = [row for row in rows if function in row["frames"]]
    assert sum(row["weight"] for row in inside) > 100_000_000
    assert {row["frames"][-1] for row in inside} == {function}
    assert {row["named_by"][-1] for row in inside} == {"perf-map"}
