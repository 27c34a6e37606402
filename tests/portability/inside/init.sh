#!/bin/busybox sh
# The first process of a guest: the file systems that a machine has, then the cells that the command line names.
busybox=/bin/busybox
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root PYTHONSAFEPATH=1

# devtmpfs first: until then there is not even /dev/null.
for one in "devtmpfs /dev" "proc /proc" "sysfs /sys" "tracefs /sys/kernel/tracing" \
    "debugfs /sys/kernel/debug" "securityfs /sys/kernel/security" "bpf /sys/fs/bpf" "cgroup2 /sys/fs/cgroup"; do
    set -- $one
    $busybox mount -t "$1" "$1" "$2"
done
for one in "devpts /dev/pts" "tmpfs /dev/shm"; do
    set -- $one
    $busybox mkdir -p "$2"
    $busybox mount -t "$1" "$1" "$2"
done
# /tmp stays in the first file system, where the environment may stand.
$busybox chmod 1777 /tmp /dev/shm /disk
$busybox ip link set lo up
$busybox --install -s /bin

/portability/python -B /portability/inside/cells.py 2>&1
$busybox poweroff -f
