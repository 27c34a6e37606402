"""The two shapes of a pair's program: what is done so many times, and what is done in each period until it is ended."""

from __future__ import annotations

import textwrap

from omn_core.testing.stepped import Workload, make_workload


def repeat(name: str, body: str, count: int, *, until: str, before: str = "") -> Workload:
    """Make a program that does `body` so many times, `turn` being how often it was done.

    Steps: `ready` after what stands `before`, and `until` after the last.
    """
    loop = f"for turn in range({count}):\n{_indent(body)}\n"
    return make_workload(name, f'{before}\nstep("ready")\n{loop}step("{until}")\n')


def pace(name: str, body: str, period_ns: int, *, before: str = "") -> Workload:
    """Make a program that does `body` once in each period, paced by the clock, until it is ended.

    Step: `ready`, after what stands `before`.
    """
    return make_workload(
        name,
        f"""
{before}
step("ready")
due = time.monotonic_ns()
while True:
    due += {period_ns}
    time.sleep(max(due - time.monotonic_ns(), 0) / 1e9)
{_indent(body)}
""",
    )


def _indent(body: str) -> str:
    return textwrap.indent(body.strip("\n"), "    ")
