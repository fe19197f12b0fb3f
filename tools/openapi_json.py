#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/openapi.yaml to data/openapi.json, which the program carries.

    tools/openapi_json.py           writes data/openapi.json
    tools/openapi_json.py --check   exit code 1 when it differs from the yaml

What depends on the served embodiment and the build becomes a placeholder, a JSON string that the server replaces with its own JSON
(src/server/openapi.c): see PLACES. For gr1 the served document equals the yaml."""
import json
import pathlib
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
YAML, JSON = ROOT / "docs/openapi.yaml", ROOT / "data/openapi.json"
PLACES = {
    "@VERSION@": ("info", "version"),
    "@IMAGES@": ("components", "schemas", "Images"),
    "@STATE@": ("components", "schemas", "State"),
    "@ACTIONS@": ("components", "schemas", "Actions"),
    "@EMBODIMENT@": ("components", "schemas", "Chunk", "properties", "embodiment", "const"),
}


class Loader(yaml.SafeLoader):
    """Refuses a repeated key, which YAML would let pass."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        twice = {k for k in keys if keys.count(k) > 1}
        if twice:
            raise yaml.YAMLError(f"{node.start_mark}: {', '.join(twice)} stands there twice")
        return super().construct_mapping(node, deep)


def document():
    return yaml.load(YAML.read_text(encoding="utf-8"), Loader)


def template():
    doc = document()
    for place, path in PLACES.items():
        at = doc
        for key in path[:-1]:
            at = at[key]
        at[path[-1]]  # must be there
        at[path[-1]] = place
    tags = doc["components"]["schemas"]["PredictRequest"]["properties"]["embodiment"]["enum"]
    tags[0] = "@EMBODIMENT@"
    return json.dumps(doc, ensure_ascii=False, separators=(",", ":")) + "\n"


def main():
    text = template()
    if sys.argv[1:] == ["--check"]:
        if JSON.read_text(encoding="utf-8") != text:
            print(f"{JSON.relative_to(ROOT)} is not made from {YAML.relative_to(ROOT)}: run tools/openapi_json.py", file=sys.stderr)
            return 1
        return 0
    JSON.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
