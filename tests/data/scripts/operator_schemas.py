"""Compares objects, JSON documents of standard input, with schemas by group, version and kind. Unknown fields are faults."""

import json
import sys

import jsonschema

with open(sys.argv[1]) as file:
    schemas = json.load(file)
faults = []
for item in json.load(sys.stdin):
    name = f"{item['kind']} {item['metadata']['name']}"
    schema = schemas.get(f"{item['apiVersion']} {item['kind']}")
    if schema is None:
        faults.append(f"{name}: there is no schema of {item['apiVersion']} {item['kind']}")
        continue
    for error in jsonschema.Draft7Validator({**schema, "definitions": schemas["definitions"]}).iter_errors(item):
        faults.append(f"{name}: {'.'.join(map(str, error.absolute_path))}: {error.message}")
print(json.dumps(faults))
