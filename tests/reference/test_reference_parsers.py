"""Each tool's output, as captured from the tool, gives the figures that stand in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from reference.load import load_pairs, load_parser
from reference.parsers.sysstat import parse_pidstat_io
from reference.parsers.timing import parse_perf_stat
from reference.parsers.tracing import parse_bpftrace
from reference.parsers.util_linux import parse_prlimit
from reference.parsing import ToolLossError, UnreadableError

pytestmark = pytest.mark.spec("BEN-1")
CAPTURES = Path(__file__).parent / "captures"

CASES: list[tuple[str, str, dict[str, float]]] = [
    (
        "debian12/bpftrace.txt",
        "tracing:parse_bpftrace",
        {"switches": 10027, "per.0": 5848, "length.count": 10027, "length.median": 1024},
    ),
    ("debian12/cpu-stat.txt", "machine_files:parse_flat_file", {"nr_periods": 0, "throttled_time": 0}),
    ("debian12/fio.json", "fio:parse_fio", {"read.bytes": 0, "write.bytes": 1 << 20, "write.requests": 64}),
    (
        "debian12/fio-device.json",
        "fio:parse_fio",
        {"read.requests": 400, "device.busy_ns": 104052020.0, "device.request_ns": 254000000},
    ),
    (
        "debian12/free.txt",
        "procps:parse_free",
        {"total_bytes": 25276502016, "available_bytes": 24722972672, "cache_bytes": 3172614144, "swap_total_bytes": 0},
    ),
    (
        "debian12/iostat-extended.txt",
        "sysstat:parse_iostat_extended",
        {"vda.reads_per_second": 1, "vda.read_bytes_per_second": 4096, "vda.util": 0},
    ),
    (
        "formats/sysstat-12.0-iostat-extended.format.txt",
        "sysstat:parse_iostat_extended",
        {"sda.reads_per_second": 12.5, "sda.written_bytes_per_second": 48 * 1024, "sda.queue": 0.01, "sda.util": 0.008},
    ),
    (
        "debian12/iostat-totals.txt",
        "sysstat:parse_iostat_totals",
        {"loop0.read_bytes": 27303568 * 1024, "loop0.written_bytes": 5133600 * 1024},
    ),
    ("debian12/ls-fd.txt", "machine_files:parse_listing", {"count": 5}),
    ("debian12/lsof.txt", "lsof:parse_lsof", {"descriptors": 5}),
    ("debian12/memory-usage.txt", "machine_files:parse_number_file", {"value": 3717185536}),
    (
        "debian12/mpstat.txt",
        "sysstat:parse_mpstat",
        {"all.util": 0.9951, "0.util": 0.9901, "1.util": 1, "0.steal": 0.0099, "all.idle": 0},
    ),
    (
        "debian12/perf-report-dso.txt",
        "timing:parse_perf_report",
        {"libz": 0.711, "libpython3.11": 0.2738, "[kernel.kallsyms]": 0.0114},
    ),
    (
        "debian12/perf-stat.txt",
        "timing:parse_perf_stat",
        {"task-clock": 760000, "page-faults": 59, "context-switches": 1},
    ),
    ("formats/perf-6.8-stat.format.txt", "timing:parse_perf_stat", {"task-clock": 501250000, "page-faults": 20005}),
    ("debian12/pidstat-cpu.txt", "sysstat:parse_pidstat_cpu", {"user": 0.0792, "system": 0.0099, "util": 0.0891}),
    (
        "debian12/pidstat-io.txt",
        "sysstat:parse_pidstat_io",
        {"read_bytes_per_second": 0, "written_bytes_per_second": 0},
    ),
    (
        "debian12/pidstat-memory.txt",
        "sysstat:parse_pidstat_memory",
        {"rss_bytes": 3956 * 1024, "virtual_bytes": 5328 * 1024, "minor_per_second": 0},
    ),
    (
        "debian12/pidstat-switches.txt",
        "sysstat:parse_pidstat_switches",
        {"voluntary_per_second": 315, "involuntary_per_second": 3},
    ),
    ("debian12/pmap.txt", "procps:parse_pmap", {"size_bytes": 2504 * 1024, "rss_bytes": 1488 * 1024}),
    (
        "debian12/pressure-cpu.txt",
        "machine_files:parse_pressure",
        {"some_ns": 4589979571000, "some_avg10": 0.9358, "full_ns": 0},
    ),
    (
        "debian12/pressure-io.txt",
        "machine_files:parse_pressure",
        {"some_ns": 113952795000, "full_ns": 33989461000, "full_avg300": 0},
    ),
    (
        "debian12/prlimit.txt",
        "util_linux:parse_prlimit",
        {"NOFILE.soft": 20000, "NOFILE.hard": 20000, "STACK.soft": 8388608, "CORE.soft": 0},
    ),
    ("debian12/ps-all.txt", "procps:parse_process_list", {"processes": 7}),
    (
        "debian12/ps-process.txt",
        "procps:parse_ps",
        {"rss_bytes": 4300 * 1024, "threads": 1, "minor": 10551, "major": 0},
    ),
    ("debian12/sar-cpu.txt", "sysstat:parse_sar_cpu", {"util": 1, "idle": 0}),
    ("debian12/sar-load.txt", "sysstat:parse_sar_load", {"load1": 5.08, "load5": 4.9, "load15": 3.49, "tasks": 151}),
    (
        "debian12/sar-memory.txt",
        "sysstat:parse_sar_memory",
        {"free_bytes": 20274984 * 1024, "cached_bytes": 3043340 * 1024, "active_bytes": 1588772 * 1024},
    ),
    ("debian12/sar-paging.txt", "sysstat:parse_sar_paging", {"faults_per_second": 23724, "major_per_second": 0}),
    ("debian12/sar-tasks.txt", "sysstat:parse_sar_tasks", {"forks_per_second": 5, "switches_per_second": 1814}),
    (
        "debian12/slabtop.txt",
        "procps:parse_slabtop",
        {"bytes": (56180 + 21336 + 96856 + 10324 + 347824) * 1024, "caches": 5},
    ),
    (
        "debian12/smem.txt",
        "smem:parse_smem",
        {"2143.uss_bytes": 448 * 1024, "2143.pss_bytes": 1105 * 1024, "15312.rss_bytes": 13164 * 1024},
    ),
    ("debian12/strace.txt", "tracing:parse_strace", {"execve.calls": 1, "close.calls": 5}),
    ("debian12/strace-summary.txt", "tracing:parse_strace_summary", {"execve.calls": 1, "close.calls": 5}),
    ("debian12/time-keyword.txt", "timing:parse_time_keyword", {"wall_ns": 107000000, "oncpu_ns": 1000000}),
    (
        "debian12/time-verbose.txt",
        "timing:parse_time_verbose",
        {
            "minor": 102,
            "major": 0,
            "written_bytes": 2056 * 512,
            "read_bytes": 8 * 512,
            "peak_bytes": 1668 * 1024,
            "voluntary": 18,
        },
    ),
    ("debian12/top.txt", "procps:parse_top", {"2986.util": 0.1, "tasks": 1}),
    ("debian12/uptime.txt", "procps:parse_uptime", {"load1": 0.83, "load5": 1.14, "load15": 1.4}),
    (
        "debian12/vmstat.txt",
        "procps:parse_vmstat",
        {"util": 1, "idle": 0, "switches_per_second": 1466, "interrupts_per_second": 1019},
    ),
    (
        "formats/procps-4.0.4-vmstat.format.txt",
        "procps:parse_vmstat",
        {"util": 0.65, "idle": 0.35, "switches_per_second": 900},
    ),
    (
        "debian12/vmstat-disks.txt",
        "procps:parse_vmstat_disks",
        {
            "loop0.reads": 131635,
            "loop0.read_bytes": 54607136 * 512,
            "loop0.writes": 21339,
            "loop0.write_merges": 26416,
            "loop0.written_bytes": 10267200 * 512,
        },
    ),
    ("debian12/vmstat-forks.txt", "procps:parse_vmstat_statistics", {"forks": 878118}),
    (
        "debian12/vmstat-statistics.txt",
        "procps:parse_vmstat_statistics",
        {"total_bytes": 24684084 * 1024, "forks": 857885, "switches": 12306729, "stolen_ns": 1191 * 10**7},
    ),
    ("debian12/cpuidle-times.txt", "machine_files:parse_idle_times", {"idle_ns": 4396851325000}),
    (
        "debian12/ip-link.json",
        "iproute:parse_link",
        {"lo.tx_bytes": 629633983, "lo.rx_packets": 2222649, "lo.rx_errors": 0},
    ),
    ("debian12/lscpu.txt", "util_linux:parse_lscpu", {"0.freq_hz": 2596134000, "1.freq_hz": 2596134000}),
    ("debian12/mpstat-softirq.txt", "sysstat:parse_mpstat_softirq", {"TIMER": 92, "RCU": 318, "BLOCK": 83}),
    (
        "debian12/net-dev.txt",
        "machine_files:parse_net_dev",
        {"lo.rx_bytes": 629633983, "lo.tx_packets": 2222649, "ifb0.tx_bytes": 0},
    ),
    (
        "debian12/sar-interfaces.txt",
        "sysstat:parse_sar_interfaces",
        {"lo.tx_packets_per_second": 200.0, "lo.rx_bytes_per_second": 156.64 * 1024},
    ),
    (
        "debian12/schedstat.txt",
        "machine_files:parse_schedstat",
        {"oncpu_ns": 177496942, "wait_ns": 443098591, "slices": 544},
    ),
    ("debian12/stat-softirq.txt", "machine_files:parse_stat_line", {"total": 9492093}),
    (
        "debian12/status.txt",
        "machine_files:parse_status",
        {"VmRSS": 1356 * 1024, "Threads": 1, "voluntary_ctxt_switches": 0},
    ),
    ("debian12/numastat.txt", "numactl:parse_numastat", {"0.bytes": 1.71 * 1024 * 1024}),
    ("debian12/nstat.txt", "iproute:parse_nstat", {"UdpOutDatagrams": 19652}),
    ("debian12/sar-sockets.txt", "sysstat:parse_sar_sockets", {"sockets": 20, "tcp": 4, "udp": 0}),
    (
        "debian12/ss-round-trip.txt",
        "iproute:parse_round_trip",
        {"rtt_ns": 23000, "rttvar_ns": 13000, "min_rtt_ns": 8000},
    ),
    ("debian12/ss-sockets.txt", "iproute:parse_sockets", {"4711.ESTAB": 2, "4711.LISTEN": 1}),
    ("debian12/ss-summary.txt", "iproute:parse_socket_summary", {"TCP.total": 4, "UDP.total": 0}),
]
"""A captured output, its parser, and what stands in it, read by eye and converted to omn's units."""


def read_capture(name: str) -> str:
    """Return a captured output."""
    return (CAPTURES / name).read_text()


@pytest.mark.parametrize(("capture", "parser", "expected"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_a_captured_output_gives_its_figures(capture: str, parser: str, expected: dict[str, float]) -> None:
    """Of what stands in the file, in omn's units."""
    figures = load_parser(f"reference.parsers.{parser}")(read_capture(capture))
    assert {name: figures[name] for name in expected} == pytest.approx(expected)


def test_every_parser_of_a_pair_is_held_to_a_capture() -> None:
    """A parser that was never shown a tool's output checks nothing."""
    used = {pair.tool.parser for pair in load_pairs()}
    held = {f"reference.parsers.{parser}" for _, parser, _ in CASES}
    assert used - held == set()


@pytest.mark.parametrize("parser", sorted({case[1] for case in CASES}))
@pytest.mark.parametrize("text", ["", "\n", "Segmentation fault\n"])
def test_what_a_tool_never_prints_is_unreadable(parser: str, text: str) -> None:
    """Never a figure, and never zero."""
    with pytest.raises(UnreadableError):
        load_parser(f"reference.parsers.{parser}")(text)


def test_an_event_of_perf_has_its_name_without_where_it_was_counted() -> None:
    """A modifier is left out; what stands after the colon of a tracepoint is its name."""
    text = "1,,task:task_newtask,1615420,100.00,,\n102,,page-faults:u,1615420,100.00,,\n"
    assert parse_perf_stat(text) == {"task:task_newtask": 1, "page-faults": 102}


def test_what_perf_could_not_count_is_no_figure() -> None:
    """An event that was not counted is absent, and one that was shared or not supported is the tool's own loss."""
    figures = parse_perf_stat(read_capture("formats/perf-6.8-stat.format.txt"))
    assert "context-switches" not in figures
    with pytest.raises(ToolLossError, match="cycles <not supported>"):
        parse_perf_stat(read_capture("debian12/perf-stat-not-supported.txt"))
    with pytest.raises(ToolLossError, match=r"for 25\.00 % of the time"):
        parse_perf_stat("100,,page-faults,1000,25.00,,\n")


def test_events_that_bpftrace_lost_are_its_own_loss() -> None:
    """It says how many, each time that it finds some missing."""
    text = read_capture("debian12/bpftrace.txt") + '{"type": "lost_events", "data": {"events": 12}}\n'
    with pytest.raises(ToolLossError, match="bpftrace lost 12 events"):
        parse_bpftrace(text)


def test_an_account_that_pidstat_may_not_read_is_no_figure() -> None:
    """It prints -1.00 there."""
    text = read_capture("debian12/pidstat-io.txt").replace("0.00      0.00      0.00", "-1.00     -1.00     -1.00")
    assert parse_pidstat_io(text) == {}


def test_unlimited_is_no_figure() -> None:
    """It is no number, and a large one in its place would be compared."""
    assert "AS.soft" not in parse_prlimit(read_capture("debian12/prlimit.txt"))
