#!/usr/bin/env python3
"""The schemas of documents say what the C readers do. Each document of fuzz/corpus (`whole` has every key) is changed in every place in
many ways, and schema and reader (document_verdict) must agree on each change; where only the reader can see a fault, its code is listed
here. Understands as much of JSON Schema as these files use."""
import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(os.environ.get("EGRESS_SRCDIR", "."))
VERDICT = Path(os.environ.get("EGRESS_BUILDDIR", ".")) / "document_verdict"
CORPUS = TOP / "fuzz/corpus"
# What a schema of this kind cannot say: words that must exist elsewhere in the document, what another word makes necessary, order, twins.
ONLY_READER = {("keyset", "unknown_word"), ("keyset", "duplicate_word"), ("keyset", "out_of_range"),
               ("beat", "out_of_range"), ("envelope", "bad_header"),
               ("lease", "missing_key"), ("lease", "bad_prefix"), ("lease", "out_of_range"), ("lease", "duplicate_word")}
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
    if kind == "string" and not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 1 << 20):
        yield f"{where}: too short or too long"
    if kind == "array":
        yield from array_faults(schema, value, where, local)
    if kind == "object" and "propertyNames" in schema:
        yield from map_faults(schema, value, where)
    elif kind == "object":
        if schema.get("additionalProperties") is not False:
            yield f"{where}: the schema lets unknown keys through"
        yield from (f"{where}/{key}: unknown" for key in value if key not in schema["properties"])
        yield from (f"{where}/{key}: missing" for key in schema.get("required", []) if key not in value and not local)
        if "oneOf" in schema and sum(all(k in value for k in one["required"]) for one in schema["oneOf"]) != 1:
            yield f"{where}: not exactly one of its forms"
        for key, member in value.items():
            yield from faults(schema["properties"].get(key, {}), member, f"{where}/{key}", local)


def array_faults(schema, value, where, local):
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1 << 20):
        yield f"{where}: too few or too many"
    for i, item in enumerate(value):
        each = schema["items"]
        if isinstance(each, dict) or i < len(each):
            yield from faults(each if isinstance(each, dict) else each[i], item, f"{where}/{i}", local)


def map_faults(schema, value, where):
    if not schema.get("minProperties", 0) <= len(value) <= schema["maxProperties"]:
        yield f"{where}: too few or too many"
    for key, member in value.items():
        if not re.search(schema["propertyNames"]["pattern"], key):
            yield f"{where}/{key}: not a name"
        yield from faults(schema["additionalProperties"], member, f"{where}/{key}")


def unused(schema, values, where=""):
    """Keys of the schema that no document has: the reader may not know them."""
    values = [v for v in values if v is not None]
    if schema.get("type") == "array" and isinstance(schema["items"], dict):
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


def places(value, way=()):
    """Every place in a document, the whole of it first."""
    yield way
    for key, member in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(member, way + (key,))


def changed(document, way, change):
    document = copy.deepcopy(document)
    if not way:
        return change(document)
    holder = document
    for step in way[:-1]:
        holder = holder[step]
    holder[way[-1]] = change(holder[way[-1]])
    return document


def without(document, way):
    document = copy.deepcopy(document)
    holder = document
    for step in way[:-1]:
        holder = holder[step]
    del holder[way[-1]]
    return document


def variants(document):
    """The document as it is, and changed in one place each."""
    yield document
    values = [None, True, 0, -1, 1.5, 7, 1 << 53, 1 << 62, "", "x", "a b", "A" * 43, "A" * 64, "x" * 600, [], {}, [1], {"x": 1}]
    for way in places(document):
        for value in values:
            yield changed(document, way, lambda _, new=value: new)
        if way:
            yield without(document, way)
        yield changed(document, way, lambda old: dict(old, extra=1) if isinstance(old, dict) else old)
        yield changed(document, way, lambda old: old + old[-1:] if isinstance(old, list) and old else old)
        yield changed(document, way, lambda old: old * 65 if isinstance(old, list) and old else old)


def both_ways():
    asked = []
    for name in ("keyset", "beat", "manifest", "lease", "ruleset", "envelope"):
        folder = CORPUS / ("lease_doc" if name in ("lease", "ruleset") else "envelope" if name == "envelope" else f"{name}_doc")
        seed = {"ruleset": "ruleset", "envelope": "keyset"}.get(name, "whole")
        schema = json.loads((SCHEMA / f"{name}.schema.json").read_text())
        document = json.loads((folder / seed).read_text().split("\n")[0])
        asked += [(name, schema, variant) for variant in variants(document)]
    lines = "".join(f"{name}\t{json.dumps(variant, separators=(',', ':'))}\n" for name, _, variant in asked)
    answers = subprocess.run([VERDICT], input=lines, capture_output=True, text=True, check=True, timeout=120).stdout.split("\n")[:-1]
    if len(answers) != len(asked) or answers.count("ok") < 20 or len(set(answers)) < 8:
        yield f"the readers answered {len(answers)} of {len(asked)}"
    for (name, schema, variant), answer in zip(asked, answers):
        first = next(faults(schema, variant), None)
        if first is None and answer != "ok" and (name, answer) not in ONLY_READER:
            yield f"{name}: the reader says {answer}, the schema nothing: {json.dumps(variant)[:300]}"
        if first is not None and answer == "ok":
            yield f"{name}: the schema says {first}, the reader nothing: {json.dumps(variant)[:300]}"


found = list(check()) + list(both_ways())
print("\n".join(found[:40]))
sys.exit(1 if found else 0)
