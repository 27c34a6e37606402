"""Plain values into attrs classes, strictly: no coercion, no unknown field, every refusal with its path and line."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, get_args, get_origin

import attrs
import cattrs
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError, IterableValidationNote
from cattrs.gen import make_dict_structure_fn

from omn_core.located import Located, LocatedError, Path

T = TypeVar("T")

_SPOKEN = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def make_converter() -> cattrs.Converter:
    """Return a converter that coerces nothing and takes no unknown field."""
    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    for kind in (str, int, bool):
        converter.register_structure_hook(kind, _make_strict(kind))
    converter.register_structure_hook(float, _structure_float)
    converter.register_structure_hook_func(_is_sequence, lambda value, kind: _structure_list(converter, value, kind))
    converter.register_structure_hook_factory(attrs.has, lambda kind: _make_class_hook(converter, kind))
    converter.register_structure_hook_func(_is_mapping, lambda value, kind: _structure_mapping(converter, value, kind))
    return converter


def _make_class_hook(converter: cattrs.Converter, kind: type[Any]) -> Any:
    fill = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, Mapping):
            raise TypeError(f"a mapping belongs here, not {_show(value)}")
        return fill(value, kind)

    return structure


def _make_strict(kind: type[Any]) -> Any:
    def structure(value: Any, _: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{_SPOKEN[kind]} belongs here, not {_show(value)}")
        return value

    return structure


def _structure_float(value: Any, _: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a number belongs here, not {_show(value)}")
    return float(value)


def _is_sequence(kind: Any) -> bool:
    return get_origin(kind) is tuple and len(get_args(kind)) == 2 and get_args(kind)[1] is Ellipsis


def _is_mapping(kind: Any) -> bool:
    return get_origin(kind) in (dict, Mapping)


def _structure_list(converter: cattrs.Converter, value: Any, kind: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"a list belongs here, not {_show(value)}")
    return tuple(_structure_each(converter, enumerate(value), get_args(kind)[0], kind).values())


def _structure_mapping(converter: cattrs.Converter, value: Any, kind: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"a mapping belongs here, not {_show(value)}")
    return dict(_structure_each(converter, value.items(), get_args(kind)[1], kind))


def _structure_each(converter: cattrs.Converter, pairs: Iterable[tuple[Any, Any]], inner: Any, kind: Any) -> Any:
    done, errors = {}, []
    for index, item in pairs:
        try:
            done[index] = converter.structure(item, inner)
        except Exception as error:  # kept whole in the group raised below, as cattrs does
            error.add_note(IterableValidationNote(f"at {index!r}", index, inner))
            errors.append(error)
    if errors:
        raise IterableValidationError("while structuring its items", errors, kind)
    return done


def structure(converter: cattrs.Converter, located: Located, kind: type[T]) -> T:
    """Make an instance of an attrs class. Raises LocatedError for the first thing wrong, with its place."""
    try:
        return converter.structure(located.value, kind)
    except Exception as error:
        path, reason = _find_first(error, (), kind)
        place = ".".join(str(part) for part in path)
        raise LocatedError(located.line(path), f"{place}: {reason}" if place else reason) from error


def _find_first(error: BaseException, path: Path, kind: Any) -> tuple[Path, str]:
    """Walk cattrs' nested groups down to the first plain error, gathering the path on the way."""
    if isinstance(error, ForbiddenExtraKeysError):
        return _explain_extra(error, path)
    if isinstance(error, ClassValidationError):
        first, inner = _first_of_class(error)
        return _find_first(first, path if inner is None else (*path, inner), error.cl)
    if isinstance(error, IterableValidationError):
        first = error.exceptions[0]
        index = next(note.index for note in first.__notes__ if isinstance(note, IterableValidationNote))
        return _find_first(first, (*path, index), kind)
    if isinstance(error, KeyError):
        return path, f"the field {error.args[0]!r} is missing"
    if isinstance(error, LocatedError):
        return path, error.reason
    return path, str(error) or type(error).__name__


def _first_of_class(error: ClassValidationError) -> tuple[BaseException, str | None]:
    with_names, without = error.group_exceptions()
    extra = next((one for one in without if isinstance(one, ForbiddenExtraKeysError)), None)
    if extra is not None:
        return extra, None
    if with_names:
        first, note = with_names[0]
        return first, None if isinstance(first, KeyError) else _file_name(error.cl, note.name)
    return without[0], None


def _file_name(cls: Any, attribute: str) -> str:
    """The field's name as a file spells it: the metadata's `name` where the class says one."""
    field = next((field for field in attrs.fields(cls) if field.name == attribute), None)
    return attribute if field is None else field.metadata.get("name", attribute)


def _explain_extra(error: ForbiddenExtraKeysError, path: Path) -> tuple[Path, str]:
    name = sorted(error.extra_fields)[0]
    known = [field.metadata.get("name", field.name) for field in attrs.fields(error.cl) if field.init]
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"the fields are {', '.join(known)}"
    return (*path, name), f"there is no field {name!r} here; {hint}"


def _show(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, types.NoneType):
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
