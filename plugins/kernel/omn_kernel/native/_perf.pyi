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
    OMN_FORMAT_LOST: int
    OMN_EVENT_FREQUENCY: int
    OMN_EVENT_RECORDS_MAPPINGS: int
    OMN_EVENT_RECORDS_TASKS: int
    OMN_SAMPLE_TYPE: int
    OMN_PERIODS: int
    OMN_CHAINS: int
    OMN_ACCESSES: int
    OMN_STREAMS: int
    PERF_SAMPLE_ADDR: int
    PERF_SAMPLE_STREAM_ID: int
    OMN_USER_REGISTERS: int
    OMN_USER_STACKS: int
    OMN_REGISTER_COUNT: int
    OMN_REGISTER_MASK: int
    OMN_EVENT_EXCLUDE_USER_CHAIN: int
    PERF_SAMPLE_REGS_USER: int
    PERF_SAMPLE_STACK_USER: int
    PERF_SAMPLE_PERIOD: int
    PERF_SAMPLE_CALLCHAIN: int
    PERF_SAMPLE_RAW: int
    PERF_EVENT_IOC_ENABLE: int
    PERF_EVENT_IOC_SET_BPF: int
    PERF_RECORD_LOST: int
    PERF_RECORD_COMM: int
    PERF_RECORD_EXIT: int
    PERF_RECORD_THROTTLE: int
    PERF_RECORD_FORK: int
    PERF_RECORD_SAMPLE: int
    PERF_RECORD_MMAP2: int
    PERF_RECORD_LOST_SAMPLES: int
    PERF_RECORD_MISC_COMM_EXEC: int
    PERF_RECORD_MISC_MMAP_BUILD_ID: int
    def omn_ring_map(self, descriptor: int, size: int, ring: Any, /) -> int: ...
    def omn_ring_unmap(self, ring: Any, /) -> None: ...
    def omn_rings_waiting(self, rings: Any, count: int, /) -> int: ...
    def omn_rings_drain(self, rings: Any, count: int, out: Any, room: int, lengths: Any, /) -> int: ...
    def omn_records_count(self, data: Any, length: int, parts: int, counts: Any, /) -> None: ...
    def omn_records_decode(self, data: Any, length: int, parts: int, samples: Any, others: Any, /) -> None: ...
    def omn_event_open(self, event: Any, pid: int, cpu: int, is_cgroup: int, /) -> int: ...
    def omn_events_read(self, descriptors: Any, count: int, words: int, values: Any, /) -> int: ...

class _Foreign:
    NULL: Any
    def new(self, declaration: str, value: Any = ...) -> Any: ...
    def cast(self, declaration: str, value: Any) -> Any: ...
    def addressof(self, value: Any, index: int) -> Any: ...
    def from_buffer(self, declaration: str, value: Any) -> Any: ...

lib: _Functions
ffi: _Foreign
