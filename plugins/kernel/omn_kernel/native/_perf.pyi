from typing import Any

class _Functions:
    OMN_EVENT_DISABLED: int
    OMN_EVENT_INHERIT: int
    OMN_EVENT_ENABLE_ON_EXEC: int
    OMN_EVENT_EXCLUDE_KERNEL: int
    PERF_TYPE_HARDWARE: int
    PERF_TYPE_SOFTWARE: int
    PERF_TYPE_TRACEPOINT: int
    PERF_TYPE_RAW: int
    PERF_FORMAT_TOTAL_TIME_ENABLED: int
    PERF_FORMAT_TOTAL_TIME_RUNNING: int
    def omn_event_open(self, event: Any, pid: int, cpu: int, is_cgroup: int, /) -> int: ...
    def omn_events_read(self, descriptors: Any, count: int, words: int, values: Any, /) -> int: ...

class _Foreign:
    NULL: Any
    def new(self, declaration: str, value: Any = ...) -> Any: ...
    def cast(self, declaration: str, value: Any) -> Any: ...
    def from_buffer(self, declaration: str, value: Any) -> Any: ...

lib: _Functions
ffi: _Foreign
