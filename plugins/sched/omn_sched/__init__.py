"""The scheduler family: switches, migrations, waits for a cpu, run queues, and the interrupts that come between."""
