"""The predicate a request may carry: parsed once, checked against an entry, evaluated over whole columns."""

from omn_core.filter.grammar import Filter, compile_filter

__all__ = ["Filter", "compile_filter"]
