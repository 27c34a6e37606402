"""Whether the words of a request fit an entry: asked of a person's request, and of what a family's default composes."""

from __future__ import annotations

from collections.abc import Mapping

from omn_core.errors import NotCollected, RequestError
from omn_core.filter import Filter, compile_filter
from omn_core.filter.grammar import Comparison, make_complaint
from omn_core.model.catalog import TEXT, Backend, Entry, UnitMeaning
from omn_core.model.request import EmitSpec, Request
from omn_core.model.rows import EmitRow
from omn_core.nearest import find_nearest, suggest


def check_mode(mode: str, entry: Entry) -> None:
    """Raise RequestError for a mode that the entry does not have."""
    if mode not in entry.modes:
        offered = f"its modes are {', '.join(entry.modes)}"
        raise RequestError(f"{entry.id} has no mode {mode!r}", suggest(mode, entry.modes, offered))


def choose_value(request: Request, entry: Entry, mode: str, units: Mapping[str, UnitMeaning]) -> tuple[str, bool]:
    """Return the attribute that is measured, and whether its values add up. Raises RequestError where there is none."""
    value = entry.value if request.value is None else request.value
    unit = entry.attributes.get(value)
    if unit is None or unit == TEXT:
        numbers = [name for name, kind in entry.attributes.items() if kind != TEXT]
        offered = f"its values are {', '.join(numbers)}"
        raise RequestError(f"{entry.id} measures no {value!r}", suggest(value, numbers, offered))
    meaning = units.get(unit)
    level = value != entry.value and meaning is not None and meaning.level
    return value, entry.adds_up(mode) and not level


def check_emit(emit: EmitSpec, entry: Entry, mode: str, rows: Mapping[str, EmitRow], level: str | None) -> None:
    """Raise RequestError for an emit that does not fit, NotCollected for one that nothing installed makes.

    `level` names the value when it does not add up, None when it does.
    """
    if emit.name not in entry.emits[mode]:
        known = any(emit.name in emits for emits in entry.emits.values())
        what = f"no emit {emit.name!r} in mode {mode}" if known else f"no emit {emit.name!r}"
        offered = f"mode {mode} has {', '.join(entry.emits[mode])}"
        raise RequestError(f"{entry.id} has {what}", suggest(emit.name, entry.emits[mode], offered))
    row = rows.get(emit.name)
    if row is None:
        raise NotCollected(f"the emit {emit.name!r} is declared, and nothing installed here makes it")
    if row.adds_up and level is not None:
        raise RequestError(f"emit {emit.name} needs values that add up, and {level!r} is a level")
    if emit.count is not None and not row.takes_count:
        raise RequestError(f"emit {emit.name} takes no number, and {str(emit)!r} gives one")
    if emit.attribute is not None:
        if row.takes_attribute == "no":
            raise RequestError(f"emit {emit.name} is not divided by an attribute, and {str(emit)!r} asks it")
        if emit.attribute not in entry.filter_fields:
            raise RequestError(
                f"{entry.id} has no {emit.attribute!r} to divide {emit.name} by",
                suggest(emit.attribute, entry.filter_fields, f"its fields are {', '.join(entry.filter_fields)}"),
            )
    elif row.takes_attribute == "required":
        raise RequestError(f"emit {emit.name} names an attribute: {emit.name}@ATTRIBUTE")


def check_keys(request: Request, entry: Entry) -> None:
    """Raise RequestError for a key that the entry does not have."""
    for key in request.keys:
        if key not in entry.keys:
            offered = f"its keys are {', '.join(entry.keys) or 'none'}"
            raise RequestError(f"{entry.id} has no key {key!r}", suggest(key, entry.keys, offered))


def check_filter(predicate: Filter, entry: Entry, value: str) -> Filter:
    """Return the filter. Raises RequestError at a comparison that names no field, or compares one wrong."""
    for comparison in predicate.comparisons:
        field = value if comparison.field == "value" else comparison.field
        reason = _find_fault(comparison, field, entry, (*entry.filter_fields, value, "kind"))
        if reason is not None:
            raise make_complaint(predicate.text, comparison.column, reason)
    return predicate


def answers(request: Request, mode: str, entry: Entry, backend: Backend) -> bool:
    """Tell whether a backend serves a request's mode and emits and carries its keys and fields, target apart."""
    emits, fields = entry.emits_of(backend, mode), (*entry.filter_fields_of(backend), "value", "kind", request.value)
    asked = [emit.attribute for emit in request.emits if emit.attribute is not None]
    filtered = () if request.filter is None else compile_filter(request.filter).fields
    return (
        mode in entry.modes_of(backend)
        and all(emit.name in emits for emit in request.emits)
        and all(key in entry.keys_of(backend) for key in request.keys)
        and all(field in fields for field in (*asked, *filtered))
    )


def _find_fault(comparison: Comparison, field: str, entry: Entry, fields: tuple[str, ...]) -> str | None:
    """Return what is wrong with one comparison. A key's own type is its collector's; an attribute's is its unit's."""
    if field not in fields:
        near = find_nearest(field, fields)
        offered = f"the fields are {', '.join(entry.filter_fields)}, value, kind"
        return f"{entry.id} has no field {field!r}; {offered if near is None else f'did you mean {near!r}?'}"
    if field not in entry.attributes:
        return None
    is_text = entry.attributes[field] == TEXT
    wrong = next((literal for literal in comparison.literals if isinstance(literal, str) != is_text), None)
    if wrong is not None:
        return f"{field!r} is {'a text' if is_text else 'a number'}, not {wrong!r}"
    if is_text and comparison.operator in ("<", "<=", ">", ">="):
        return f"{field!r} is a text, and texts have no order here"
    return None
