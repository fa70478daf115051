"""What the reference must know of rl4jax's source beyond plain Python. Loaded by mkdocstrings, see mkdocs.yml.

- Equinox modules and named tuples are built from their fields, so they get a signature; commented fields are listed.
- A method that a parent describes already is not described again.
- Doctests are code.
- The shape in `Float[Array, "T *B"]` is a string, though it could be read as a product.
"""

import re
from collections.abc import Iterator
from typing import Any

import griffe

BUILT_FROM_FIELDS = {"equinox.Module", "typing.NamedTuple"}
DOCTEST = re.compile(r"^>>> .*\n?(?:^(?!\s*$).*\n?)*", re.MULTILINE)  # up to an empty line


class Rl4Jax(griffe.Extension):
    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        modules = list(every_module(pkg))
        classes = [cls for module in modules for cls in module.classes.values() if not cls.is_alias]
        for cls in [cls for cls in classes if is_built_from_fields(cls)]:
            add_init(cls)
            list_fields(cls)
        for cls in sorted(classes, key=lambda cls: len(cls.mro()), reverse=True):  # children first: they ask their parents
            drop_members(cls)
        for module in modules:
            fence_doctests(module)
            quote_shapes(module)


def every_module(module: griffe.Module) -> Iterator[griffe.Module]:
    yield module
    for member in module.members.values():
        if not member.is_alias and member.is_module:
            yield from every_module(member)


def fields_of(cls: griffe.Class) -> list[griffe.Attribute]:
    return [m for m in cls.attributes.values() if "property" not in m.labels and m.annotation is not None and not m.name.startswith("_")]


def is_built_from_fields(cls: griffe.Class) -> bool:
    bases = {getattr(base, "canonical_path", str(base)) for each in [cls, *cls.mro()] for base in each.bases}
    return "__init__" not in cls.all_members and bool(bases & BUILT_FROM_FIELDS)


def add_init(cls: griffe.Class) -> None:
    fields = {field.name: field for each in [*reversed(cls.mro()), cls] for field in fields_of(each)}
    parameters = [
        griffe.Parameter(name, annotation=field.annotation, kind=griffe.ParameterKind.positional_or_keyword, default=default_of(field))
        for name, field in fields.items()
    ]
    if parameters:
        this = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
        cls.set_member("__init__", griffe.Function("__init__", parent=cls, parameters=griffe.Parameters(this, *parameters)))


def default_of(field: griffe.Attribute) -> Any:
    """Also of `eqx.field(default=10, static=True)`."""
    if field.value is not None and str(field.value).startswith("eqx.field("):
        default = re.search(r"default=([^,)]+)", str(field.value))
        return default[1] if default else None
    return field.value


def list_fields(cls: griffe.Class) -> None:
    """Add the comments behind fields to the docstring of their class."""
    lines = cls.lines_collection[cls.filepath]
    comments = {field.name: re.search(r"  # (.*)", lines[field.lineno - 1]) for field in fields_of(cls)}
    found = "\n".join(f"- `{name}`: {comment[1]}" for name, comment in comments.items() if comment)
    if found and cls.docstring:
        cls.docstring.value += f"\n\n{found}"


def drop_members(cls: griffe.Class) -> None:
    parents = cls.mro()
    for name, member in list(cls.members.items()):
        if name == "__init__" or member.docstring:
            continue
        is_field = member.is_attribute and "property" not in member.labels
        if is_field or cls.path.startswith("rl4jax.envs.") or any(name in parent.members for parent in parents):
            cls.del_member(name)


def fence_doctests(module: griffe.Module) -> None:
    objects = [member for member in module.members.values() if not member.is_alias]
    objects += [method for cls in module.classes.values() if not cls.is_alias for method in cls.members.values()]
    for each in objects:
        if each.docstring:
            each.docstring.value = DOCTEST.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", each.docstring.value)


def quote_shapes(module: griffe.Module) -> None:
    members = [m for m in module.members.values() if not m.is_alias]
    members += [m for cls in module.classes.values() if not cls.is_alias for m in cls.members.values() if not m.is_alias]
    for member in members:
        if member.is_function:
            annotations = [parameter.annotation for parameter in member.parameters] + [member.returns]
        else:
            annotations = [member.annotation] if member.is_attribute else []
        for annotation in annotations:
            quote_shape(annotation)


def quote_shape(annotation: Any) -> None:
    """Also of the parts of a union or a tuple."""
    if isinstance(annotation, griffe.ExprSubscript):
        if annotation.canonical_path.startswith("jaxtyping.") and isinstance(annotation.slice, griffe.ExprTuple):
            kind, shape = annotation.slice.elements
            if isinstance(shape, griffe.Expr):
                annotation.slice.elements = [kind, '"' + re.sub(r"\* (?=\w)", "*", str(shape)) + '"']
            return
        quote_shape(annotation.slice)
    if isinstance(annotation, griffe.ExprTuple):
        parts = annotation.elements
    else:
        parts = (annotation.left, annotation.right) if isinstance(annotation, griffe.ExprBinOp) else ()
    for part in parts:
        quote_shape(part)
