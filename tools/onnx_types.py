#!/usr/bin/env python3
"""Which element types ONNX's operators take in each version: prints src/export/onnx_types.inc from the schemas of the installed
`onnx`, the version that deps.txt pins. A test holds the file to it. Run it with the private environment's Python:

    .venv/bin/python tools/onnx_types.py > src/export/onnx_types.inc
"""
import collections

import onnx.defs

NAMES = {
    "float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "float8e4m3fn": "f8e4m3fn", "float8e4m3fnuz": "f8e4m3fnuz",
    "float8e5m2": "f8e5m2", "float8e5m2fnuz": "f8e5m2fnuz", "float8e8m0": "f8e8m0", "float4e2m1": "f4e2m1", "bool": "bool",
    "string": "string", "complex64": "c64", "complex128": "c128", **{f"int{n}": f"i{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (2, 4, 8, 16, 32, 64)},
}
ORDER = list(NAMES.values())
HEAD = """\
// Written by tools/onnx_types.py. First sets of element types by number, then for each operator of ONNX's default domain the
// versions in which its types changed: the sets of its inputs, '>', those of its outputs. '-' takes no tensor; '*' behind the
// last input: any number of them.
R"("""


def types_of(schema, parameter):
    constraint = next((c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == parameter.type_str), [parameter.type_str])
    return tuple(sorted((NAMES[t[7:-1]] for t in constraint if t.startswith("tensor(")), key=ORDER.index))


def table():
    versions = collections.defaultdict(dict)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and not schema.deprecated:
            versions[schema.name][schema.since_version] = schema
    numbers, rows = {}, []

    def number(schema, parameter):
        types = types_of(schema, parameter)
        word = str(numbers.setdefault(types, len(numbers))) if types else "-"
        return word + "*" * (parameter.option == onnx.defs.OpSchema.FormalParameterOption.Variadic)

    for name in sorted(versions):
        row, before = [name], None
        for version, schema in sorted(versions[name].items()):
            words = " ".join([*(number(schema, p) for p in schema.inputs), ">", *(number(schema, p) for p in schema.outputs)])
            if words != before:
                row.append(f"{version}: {words}")
            before = words
        rows.append(" | ".join(row))
    sets = [f"{n} = {' '.join(types)}" for types, n in numbers.items()]
    return HEAD + "\n".join([*sets, *rows]) + '\n)"\n'


if __name__ == "__main__":
    print(table(), end="")
