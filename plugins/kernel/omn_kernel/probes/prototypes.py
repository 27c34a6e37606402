"""What the kernel's own type information answers: raw tracepoints and functions, and the shapes of their arguments."""

from __future__ import annotations

import errno

from omn_core.api import AVAILABLE, Need, Probe, ProbeContext, State
from omn_kernel.btf.kernel import PATH, read_kernel_btf
from omn_kernel.btf.spelling import spell_function, spell_integer, spell_tracepoint
from omn_kernel.btf.types import Btf
from omn_kernel.privileges import refuse_permission
from omn_kernel.probes.bpf import compute_answer, load_raw_tracepoint, load_tracing

_FORKS = ("sched_process_fork", "sched_process_free")
_NEW_TASK = "task_newtask"


def _read_types(context: ProbeContext) -> Btf | Probe:
    try:
        return read_kernel_btf(context.sysroot)
    except PermissionError as error:
        return refuse_permission(PATH, "dac_read_search", error)
    except (OSError, ValueError) as error:
        detail = error.strerror if isinstance(error, OSError) else str(error)
        return Probe(State.MISSING, f"this kernel publishes no type information ({PATH}: {detail})")


def probe_btf(_need: Need, context: ProbeContext) -> Probe:
    """Answer whether the kernel publishes its types."""
    found = _read_types(context)
    return found if isinstance(found, Probe) else AVAILABLE


def parse_shapes(argument: str) -> tuple[str, tuple[tuple[str, ...], ...] | None]:
    """Parse `name(type,type|type)` into the name and each shape of arguments; None where no parentheses stand.

    A type is spelt as the type information's are: typedefs by their name, no const, no space before a star, an integer
    in the fewest words.
    """
    name, opened, rest = argument.partition("(")
    if not opened:
        return name, None
    shapes = rest.rpartition(")")[0].split("|")
    return name, tuple(tuple(_normalize(part) for part in shape.split(",") if part.strip()) for shape in shapes)


def _normalize(spelling: str) -> str:
    words = [word for word in spelling.replace("*", " * ").split() if word not in ("const", "volatile")]
    named = [word for word in words if word != "*"]
    return spell_integer(" ".join(named)) + "*" * (len(words) - len(named))


def _compare(name: str, found: tuple[str, ...], shapes: tuple[tuple[str, ...], ...] | None, what: str) -> Probe | None:
    """Answer missing where the arguments are of no shape that the program reads, None where they are."""
    if shapes is None or found in shapes:
        return None
    return Probe(State.MISSING, f"{what} {name} takes ({', '.join(found)}) here, a shape the program cannot read")


def probe_raw_tracepoint(need: Need, context: ProbeContext) -> Probe:
    """Answer `raw_tp:sched_switch(bool,...|...)`: it exists, has one of the shapes listed, and can be attached to.

    Without type information it reads missing: no program can know what it would be handed.
    """
    types = _read_types(context)
    if isinstance(types, Probe):
        return types
    name, shapes = parse_shapes(need.argument)
    identifier = types.find_tracepoint(name)
    if identifier is None:
        return Probe(State.MISSING, f"this kernel has no tracepoint {name}")
    other = _compare(name, spell_tracepoint(types, identifier), shapes, "the tracepoint")
    if other is not None:
        return other
    try:
        load_raw_tracepoint(name)
    except OSError as error:
        return compute_answer(f"raw tracepoint {name}", error)
    return AVAILABLE


def probe_fentry(need: Need, context: ProbeContext) -> Probe:
    """Answer `fentry:vfs_read(struct file*,...|...)`: by shape where one is given, and by loading and attaching.

    The load alone decides whether the kernel lets functions be entered: some refuse every one although the type
    information has it.
    """
    types = _read_types(context)
    if isinstance(types, Probe):
        return types
    name, shapes = parse_shapes(need.argument)
    identifier = types.find_function(name)
    if identifier is None:
        return Probe(State.MISSING, f"this kernel has no function {name} that can be entered")
    other = _compare(name, spell_function(types, identifier), shapes, "the function")
    if other is not None:
        return other
    try:
        load_tracing("BPF_TRACE_FENTRY", identifier)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return Probe(State.RESTRICTED, f"the function {name} is being traced otherwise (EBUSY)")
        return compute_answer(f"fentry program on {name}", error)
    return AVAILABLE


def probe_follower(_need: Need, context: ProbeContext) -> Probe:
    """Answer whether processes can be followed to those they start: through fork and free, or through new tasks."""
    types = _read_types(context)
    if isinstance(types, Probe):
        return types
    pair = all(types.find_tracepoint(name) is not None for name in _FORKS)
    if not pair and types.find_tracepoint(_NEW_TASK) is None:
        return Probe(State.MISSING, "this kernel has no tracepoint that tells of new tasks")
    name = _FORKS[0] if pair else _NEW_TASK
    try:
        load_raw_tracepoint(name)
    except OSError as error:
        return compute_answer(f"raw tracepoint {name}", error)
    return AVAILABLE
