#!/usr/bin/env python3
"""The schemas of leases and rulesets name the keys that the reader knows: those of the documents in fuzz/corpus/lease_doc, where
`whole` has every key (tests/unit/document reads the same). Understands as much of JSON Schema as these files use."""
import json
import os
import re
import sys
from pathlib import Path

TOP = Path(os.environ.get("EGRESS_SRCDIR", "."))
SCHEMA, DOCUMENTS = TOP / "policy/schema", TOP / "fuzz/corpus/lease_doc"
KINDS = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def faults(schema, value, where="", local=False):
    kind = schema.get("type")
    if kind and (not isinstance(value, KINDS[kind]) or (kind == "integer" and isinstance(value, bool))):
        yield f"{where}: not of type {kind}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{where}: not {schema['const']}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: not one of {schema['enum']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{where}: not like {schema['pattern']}"
    if kind == "integer" and not schema["minimum"] <= value <= schema["maximum"]:
        yield f"{where}: out of range"
    if kind == "array":
        for i, item in enumerate(value):
            yield from faults(schema["items"], item, f"{where}/{i}", local)
    if kind == "object":
        if schema.get("additionalProperties") is not False:
            yield f"{where}: the schema lets unknown keys through"
        yield from (f"{where}/{key}: unknown" for key in value if key not in schema["properties"])
        yield from (f"{where}/{key}: missing" for key in schema.get("required", []) if key not in value and not local)
        if "oneOf" in schema and sum(all(k in value for k in one["required"]) for one in schema["oneOf"]) != 1:
            yield f"{where}: not exactly one of its forms"
        for key, member in value.items():
            yield from faults(schema["properties"].get(key, {}), member, f"{where}/{key}", local)


def unused(schema, values, where=""):
    """Keys of the schema that no document has: the reader may not know them."""
    values = [v for v in values if v is not None]
    if schema.get("type") == "array":
        yield from unused(schema["items"], [item for v in values for item in v], where + "/*")
    for key, member in schema.get("properties", {}).items():
        seen = [v[key] for v in values if key in v]
        if not seen:
            yield f"{where}/{key}: in the schema, but in no document that the reader takes"
        yield from unused(member, seen, f"{where}/{key}")


def check():
    lease, ruleset = (json.loads((SCHEMA / f"{name}.schema.json").read_text()) for name in ("lease", "ruleset"))
    whole, local, rules = (json.loads((DOCUMENTS / name).read_text()) for name in ("whole", "local", "ruleset"))
    yield from faults(lease, whole)
    yield from faults(lease, local, local=True)
    yield from faults(ruleset, rules)
    yield from unused(lease, [whole])
    if not list(faults(lease, dict(whole, extra=1))) or not list(faults(lease, dict(whole, epoch=-1))):
        yield "the check itself finds nothing"


found = list(check())
print("\n".join(found))
sys.exit(1 if found else 0)
