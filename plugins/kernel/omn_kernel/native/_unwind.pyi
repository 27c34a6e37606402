from typing import Any

class _Functions:
    OMN_REGISTERS: int
    OMN_ROOT: int
    OMN_STACK_END: int
    OMN_NO_TABLE: int
    OMN_BAD_TABLE: int
    OMN_TOO_DEEP: int
    OMN_FRAMED: int
    OMN_FRAMELESS: int
    OMN_CLOBBERED: int
    OMN_UNKNOWN: int
    def omn_list_frames(
        self,
        content: Any,
        size: int,
        address: int,
        debug_at: int,
        starts: Any,
        ends: Any,
        entries: Any,
        capacity: int,
        /,
    ) -> int: ...
    def omn_unwind_many(
        self,
        tables: Any,
        ranges: Any,
        range_count: int,
        count: int,
        registers: Any,
        stacks: Any,
        stack_starts: Any,
        stack_ends: Any,
        addresses: Any,
        exact: Any,
        capacity: int,
        lengths: Any,
        reasons: Any,
        /,
    ) -> None: ...
    def omn_find_callers(
        self,
        tables: Any,
        ranges: Any,
        range_count: int,
        count: int,
        registers: Any,
        stacks: Any,
        stack_starts: Any,
        stack_ends: Any,
        callers: Any,
        kinds: Any,
        /,
    ) -> None: ...

class _Foreign:
    NULL: Any
    def new(self, declaration: str, value: Any = ...) -> Any: ...
    def from_buffer(self, declaration: str, buffer: Any) -> Any: ...

lib: _Functions
ffi: _Foreign
