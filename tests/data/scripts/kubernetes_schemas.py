"""Compares objects, JSON documents of standard input, with the schemas of a version of Kubernetes. Unknown fields are faults."""

import json
import sys

import kubernetes_validate

version = sys.argv[1]
if version not in [".".join(known.split(".")[:2]) for known in kubernetes_validate.utils.all_versions()]:
    sys.exit(f"there are no schemas of Kubernetes {version}")
faults = []
for item in json.load(sys.stdin):
    name = f"{item['kind']} {item['metadata']['name']}"
    try:
        kubernetes_validate.validate(item, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        faults.append(f"{name}: {'.'.join(map(str, error.path))}: {error.message}")
    except kubernetes_validate.SchemaNotFoundError:
        faults.append(f"{name}: Kubernetes {version} has no {item['apiVersion']} {item['kind']}")
print(json.dumps(faults))
