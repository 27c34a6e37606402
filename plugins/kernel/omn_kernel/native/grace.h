/* Waiting until no eBPF program runs any more that began before. */

#ifndef OMN_GRACE_H
#define OMN_GRACE_H

/* Whether the kernel lets anyone wait so; the wait itself, a few milliseconds. Each returns a negated errno where it
   does not: on machines that keep cpus free of the kernel's ticks (nohz_full) it is withdrawn. */
int omn_grace_query(void);
int omn_grace_wait(void);

#endif
