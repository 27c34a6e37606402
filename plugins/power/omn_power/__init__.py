"""The power family: clocks, idle states, heat and energy, from sysfs."""
