"""Everything a plugin may import from the core. Nothing else is public.

Names here change only with the contract version (`CONTRACT`): a name is added with a minor one and taken away or
changed with a major one. Those that no `plugin.py` needs are imported when first asked for, so that one costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from omn_core.errors import (
    CatalogError,
    MachineRefused,
    NotCollected,
    OmnError,
    PluginError,
    Refused,
    RequestError,
    RunFailed,
    Whose,
)
from omn_core.hookspecs import (
    CONTRACT,
    GROUP,
    hookimpl,
)
from omn_core.model.catalog import (
    Backend,
    Entry,
)
from omn_core.model.probe import (
    AVAILABLE,
    Need,
    Probe,
    ProbeContext,
    State,
)
from omn_core.model.request import (
    EmitSpec,
    LeftOut,
    Request,
    Session,
)
from omn_core.model.rows import (
    CollectorRow,
    CommandRow,
    EmitRow,
    FormatRow,
    RequirementRow,
    StackRow,
    TargetRow,
    ViewRow,
)
from omn_core.model.style import (
    TextStyle,
)
from omn_core.model.target import (
    Target,
)

if TYPE_CHECKING:
    from omn_core.cache import (
        fill_cached,
        find_cache_folder,
        open_cached,
        read_cached,
        write_cached,
    )
    from omn_core.emit.base import (
        Answer,
        Emit,
        Series,
    )
    from omn_core.filter.grammar import (
        Filter,
        compile_filter,
    )
    from omn_core.filter.partial import (
        may_match,
    )
    from omn_core.format.base import (
        Encoder,
    )
    from omn_core.format.events import (
        iter_rows,
    )
    from omn_core.format.reservations import (
        iter_reservations,
    )
    from omn_core.format.sentences import (
        render_asked,
    )
    from omn_core.format.stacks import (
        Stack,
        StackSeries,
        iter_stack_series,
        render_series,
    )
    from omn_core.model.batch import (
        ABSENT,
        Array,
        Batch,
        Column,
        Names,
    )
    from omn_core.model.collector import (
        BoundTarget,
        Collector,
        CollectorBase,
        InTargetCost,
        ProcessHandle,
        RunContext,
        TargetGone,
    )
    from omn_core.model.losses import (
        Drain,
        Losses,
    )
    from omn_core.model.resolved import (
        ResolvedRequest,
    )
    from omn_core.model.result import (
        Document,
        Result,
        SeriesResult,
    )
    from omn_core.model.stacks import (
        Frame,
        Stacks,
    )
    from omn_core.model.watched import (
        Window,
    )
    from omn_core.names import (
        escape_bytes,
        escape_tree,
        render_printable,
    )
    from omn_core.run.alongside import (
        Alongside,
        Beside,
        start_alongside,
    )
    from omn_core.run.events import (
        Moment,
        RunEvent,
    )
    from omn_core.run.launcher import (
        Launched,
        LaunchPlan,
        launch,
    )
    from omn_core.run.linux_exec import (
        make_program_environment,
    )
    from omn_core.run.search import (
        explain_refusal,
        get_program,
    )
    from omn_core.session.read import (
        read_session,
    )

_DEFERRED = {
    "ABSENT": "omn_core.model.batch",
    "Alongside": "omn_core.run.alongside",
    "Answer": "omn_core.emit.base",
    "Array": "omn_core.model.batch",
    "Batch": "omn_core.model.batch",
    "Beside": "omn_core.run.alongside",
    "BoundTarget": "omn_core.model.collector",
    "Collector": "omn_core.model.collector",
    "CollectorBase": "omn_core.model.collector",
    "Column": "omn_core.model.batch",
    "Document": "omn_core.model.result",
    "Drain": "omn_core.model.losses",
    "Emit": "omn_core.emit.base",
    "Encoder": "omn_core.format.base",
    "Filter": "omn_core.filter.grammar",
    "Frame": "omn_core.model.stacks",
    "InTargetCost": "omn_core.model.collector",
    "LaunchPlan": "omn_core.run.launcher",
    "Launched": "omn_core.run.launcher",
    "Losses": "omn_core.model.losses",
    "Moment": "omn_core.run.events",
    "Names": "omn_core.model.batch",
    "ProcessHandle": "omn_core.model.collector",
    "ResolvedRequest": "omn_core.model.resolved",
    "Result": "omn_core.model.result",
    "RunContext": "omn_core.model.collector",
    "RunEvent": "omn_core.run.events",
    "Series": "omn_core.emit.base",
    "SeriesResult": "omn_core.model.result",
    "Stack": "omn_core.format.stacks",
    "StackSeries": "omn_core.format.stacks",
    "Stacks": "omn_core.model.stacks",
    "TargetGone": "omn_core.model.collector",
    "Window": "omn_core.model.watched",
    "compile_filter": "omn_core.filter.grammar",
    "escape_bytes": "omn_core.names",
    "escape_tree": "omn_core.names",
    "explain_refusal": "omn_core.run.search",
    "fill_cached": "omn_core.cache",
    "find_cache_folder": "omn_core.cache",
    "get_program": "omn_core.run.search",
    "iter_reservations": "omn_core.format.reservations",
    "iter_rows": "omn_core.format.events",
    "iter_stack_series": "omn_core.format.stacks",
    "launch": "omn_core.run.launcher",
    "open_cached": "omn_core.cache",
    "read_cached": "omn_core.cache",
    "may_match": "omn_core.filter.partial",
    "make_program_environment": "omn_core.run.linux_exec",
    "read_session": "omn_core.session.read",
    "render_asked": "omn_core.format.sentences",
    "render_printable": "omn_core.names",
    "render_series": "omn_core.format.stacks",
    "start_alongside": "omn_core.run.alongside",
    "write_cached": "omn_core.cache",
}


def __getattr__(name: str) -> Any:
    if name not in _DEFERRED:
        raise AttributeError(f"omn_core.api has no {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_DEFERRED[name]), name)
    return value


__all__ = [
    "ABSENT",
    "AVAILABLE",
    "CONTRACT",
    "GROUP",
    "Alongside",
    "Answer",
    "Array",
    "Backend",
    "Batch",
    "Beside",
    "BoundTarget",
    "CatalogError",
    "Collector",
    "CollectorBase",
    "CollectorRow",
    "Column",
    "CommandRow",
    "Document",
    "Drain",
    "Emit",
    "EmitRow",
    "EmitSpec",
    "Encoder",
    "Entry",
    "Filter",
    "FormatRow",
    "Frame",
    "InTargetCost",
    "LaunchPlan",
    "Launched",
    "LeftOut",
    "Losses",
    "MachineRefused",
    "Moment",
    "Names",
    "Need",
    "NotCollected",
    "OmnError",
    "PluginError",
    "Probe",
    "ProbeContext",
    "ProcessHandle",
    "Refused",
    "Request",
    "RequestError",
    "RequirementRow",
    "ResolvedRequest",
    "Result",
    "RunContext",
    "RunEvent",
    "RunFailed",
    "Series",
    "SeriesResult",
    "Session",
    "Stack",
    "StackRow",
    "StackSeries",
    "Stacks",
    "State",
    "Target",
    "TargetGone",
    "TargetRow",
    "TextStyle",
    "ViewRow",
    "Whose",
    "Window",
    "compile_filter",
    "escape_bytes",
    "escape_tree",
    "explain_refusal",
    "fill_cached",
    "find_cache_folder",
    "get_program",
    "hookimpl",
    "iter_reservations",
    "iter_rows",
    "iter_stack_series",
    "launch",
    "make_program_environment",
    "may_match",
    "open_cached",
    "read_cached",
    "read_session",
    "render_asked",
    "render_printable",
    "render_series",
    "start_alongside",
    "write_cached",
]
