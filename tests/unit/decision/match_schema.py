#!/usr/bin/env python3
"""Check lines of JSON against a schema: match_schema.py SCHEMA LINES. Exits 77 (skipped) without jsonschema."""
import copy
import json
import sys

try:
    import jsonschema
except ImportError:
    print("jsonschema is not installed: apt-get install python3-jsonschema")
    sys.exit(77)


def refuse_repeats(pairs):
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"a repeated key among {keys}"
    return dict(pairs)


def spoiled(record):
    """Copies of a good record that each break one promise; the schema must see every one."""
    for change in (
        lambda r: r.update(extra=1),
        lambda r: r.pop("status_code"),
        lambda r: r.update(class_uid=4002),
        lambda r: r.update(time="now"),
        lambda r: r.update(action_id=9),
        lambda r: r["metadata"].update(version="1.7.0"),
        lambda r: r["unmapped"].update(phase="later"),
        lambda r: r["unmapped"].update(unknown=True),
        lambda r: r["src_endpoint"].update(port=65536),
    ):
        copied = copy.deepcopy(record)
        change(copied)
        yield copied


def main():
    with open(sys.argv[1], encoding="ascii") as file:
        schema = json.load(file)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    count = 0
    with open(sys.argv[2], encoding="ascii") as file:
        for line in file:
            record = json.loads(line, object_pairs_hook=refuse_repeats)
            validator.validate(record)
            for bad in spoiled(record):
                assert not validator.is_valid(bad), "the schema lets a spoiled record pass"
            count += 1
    assert count > 0, "no line was written"
    print(f"{count} records match")


if __name__ == "__main__":
    main()
