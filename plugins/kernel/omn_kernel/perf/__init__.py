"""perf events: named, opened, counted. See perf_event_open(2)."""
