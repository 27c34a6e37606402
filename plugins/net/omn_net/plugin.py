"""The network family's table of contents: nothing but rows, and nothing imported for them."""

from __future__ import annotations

from omn_core.api import CollectorRow, hookimpl

OMN_CONTRACT = "1.0"


@hookimpl
def omn_catalog() -> str:
    """Return this package: `catalog.yaml` lies beside this module."""
    return "omn_net"


@hookimpl
def omn_collectors() -> list[CollectorRow]:
    """Return what this family collects."""
    return [
        CollectorRow("net.bytes", "nl:route:link", "omn_net.traffic:Bytes"),
        CollectorRow("net.bytes", "fs:sys:statistics", "omn_net.traffic:Bytes"),
        CollectorRow("net.packets", "nl:route:link", "omn_net.traffic:Packets"),
        CollectorRow("net.packets", "fs:sys:statistics", "omn_net.traffic:Packets"),
        CollectorRow("net.errors", "nl:route:link", "omn_net.traffic:Errors"),
        CollectorRow("net.errors", "fs:sys:statistics", "omn_net.traffic:Errors"),
        CollectorRow("net.iface", "nl:route:link", "omn_net.failures:Failures"),
        CollectorRow("net.iface", "fs:sys:statistics", "omn_net.failures:Failures"),
        CollectorRow("net.iface", "ioctl:ethtool", "omn_net.driver_counters:DriverCounters"),
        CollectorRow("net.snmp", "fs:proc:snmp", "omn_net.protocols:ProtocolCounters"),
        CollectorRow("net.socket", "fs:proc:sockstat", "omn_net.protocols:SocketCounts"),
        CollectorRow("net.backlog", "fs:proc:softnet_stat", "omn_net.cpu_work:Backlog"),
        CollectorRow("net.softirq", "bpf:raw_tp", "omn_net.softirqs:SoftirqWork"),
        CollectorRow("net.softirq", "bpf:tp", "omn_net.softirqs:SoftirqWork"),
        CollectorRow("net.softirq", "fs:proc:softirqs", "omn_net.cpu_work:NetworkSoftInterrupts"),
        CollectorRow("net.tcp.state", "nl:sock_diag", "omn_net.tcp_states:ListedStates"),
        CollectorRow("net.tcp.state", "nl:sock_diag:fd", "omn_net.tcp_states:HeldStates", several_processes=True),
        CollectorRow("net.tcp.state", "fs:proc:tcp", "omn_net.tcp_states:TableStates"),
        CollectorRow("net.tcp.rtt", "nl:sock_diag", "omn_net.tcp_rtt:ListedRoundTrips"),
        CollectorRow("net.tcp.rtt", "nl:sock_diag:fd", "omn_net.tcp_rtt:HeldRoundTrips", several_processes=True),
        CollectorRow(
            "net.tcp.retransmit", "bpf:raw_tp", "omn_net.retransmits:SegmentsSentAgain", several_processes=True
        ),
        CollectorRow("net.tcp.retransmit", "bpf:tp", "omn_net.retransmits:SegmentsSentAgain", several_processes=True),
        CollectorRow("net.tcp.retransmit", "fs:proc:snmp", "omn_net.protocols:Retransmits"),
        CollectorRow("net.tcp.connect", "bpf:fentry", "omn_net.connects:Connects", several_processes=True),
        CollectorRow("net.tcp.connect", "bpf:raw_tp", "omn_net.connects:Connects", several_processes=True),
        CollectorRow("net.tcp.lifetime", "bpf:raw_tp", "omn_net.lifetimes:Lifetimes", several_processes=True),
        CollectorRow("net.tcp.lifetime", "bpf:tp", "omn_net.lifetimes:Lifetimes", several_processes=True),
        CollectorRow(
            "net.drops",
            "bpf:raw_tp",
            "omn_net.drops:DroppedPackets",
            reads_stacks=True,
        ),
        CollectorRow("net.drops", "bpf:tp", "omn_net.drops:DroppedPackets"),
        CollectorRow("net.udp", "nl:sock_diag", "omn_net.udp:UdpSockets"),
        CollectorRow("net.qdisc", "nl:route:qdisc", "omn_net.queues:QueueCounts"),
    ]
