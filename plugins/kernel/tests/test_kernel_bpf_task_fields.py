"""What programs tell of a task, held against what the catalogs say that a backend's events carry."""

from __future__ import annotations

import attrs
from omn_kernel.bpf.tasks import TaskFields

from omn_core.model.catalog import Catalog
from omn_core.model.request import EmitSpec
from omn_core.testing.harness import bind_machine, resolve_onto


def test_programs_tell_of_a_task_what_their_backend_carries(catalog: Catalog) -> None:
    """Of every source that programs serve, as it is asked by its raw rows, which show all there is."""
    told = 0
    for entry in catalog.entries.values():
        for backend in entry.chain:
            modes = [mode for mode in entry.modes_of(backend) if "raw" in entry.emits_of(backend, mode)]
            if not backend.id.startswith("bpf:") or backend.uncollected is not None or not modes:
                continue
            resolved = resolve_onto(entry, backend.id, bind_machine().target, mode=modes[0])
            shown = set(TaskFields(attrs.evolve(resolved, emits=(EmitSpec("raw"),))).shown)
            assert shown <= {*entry.keys_of(backend), *entry.attributes}, (entry.id, backend.id)
            told += len(shown)
    assert told > 0
