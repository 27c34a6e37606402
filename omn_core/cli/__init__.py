"""The command line: it builds requests, hands them on, and renders what comes back."""
