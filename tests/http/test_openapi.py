#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/openapi.yaml against the live server: replies fit their schemas, examples fit theirs and work when sent.

Needs python3-yaml and python3-jsonschema, and skips without. In and out as serving.py says.
"""
import copy
import json
import os

import serving as s
from serving import base, data, shared, test

s.Shared.args = ("--threads", 1)
FILE = os.path.join(os.environ.get("GR00T_SOURCE_ROOT", os.path.join(s.HERE, "..", "..")), "docs", "openapi.yaml")


def modules():
    try:
        import jsonschema
        import yaml
    except ImportError as e:
        raise s.Skip(f"{e.name} is not installed (./setup.sh --test)") from None
    if not os.path.exists(FILE):
        raise s.Skip("docs/openapi.yaml is not there")
    return yaml, jsonschema


def document():
    yaml, _ = modules()
    with open(FILE, encoding="utf-8") as f:
        return json.loads(json.dumps(yaml.safe_load(f)))  # dates and numbers as in JSON


def resolve(doc, node):
    while isinstance(node, dict) and "$ref" in node:
        at = doc
        for part in node["$ref"].lstrip("#/").split("/"):
            at = at[part.replace("~1", "/").replace("~0", "~")]
        node = at
    return node


def check(doc, schema, value, what):
    _, jsonschema = modules()
    root = dict(schema, components=doc.get("components", {}))
    faults = sorted(jsonschema.Draft202012Validator(root).iter_errors(value), key=lambda e: list(map(str, e.path)))
    assert not faults, f"{what}: " + "; ".join(f"{'/'.join(map(str, e.path))}: {e.message[:300]}" for e in faults[:5])


def response_schema(doc, route, method, status):
    responses = doc["paths"][route][method]["responses"]
    entry = resolve(doc, responses.get(str(status), responses.get("default")))
    assert entry is not None, f"{method} {route}: status {status} is not described"
    content = entry.get("content", {}).get("application/json")
    return content and content.get("schema")


def fits(doc, route, method, reply):
    schema = response_schema(doc, route, method, reply.status)
    if schema:
        check(doc, schema, reply.json(), f"{method} {route} -> {reply.status}")


@test("", "every GET route's reply fits its schema")
def get_routes():
    doc = document()
    routes = [r for r, ops in doc["paths"].items() if "get" in ops]
    for want in ("/health", "/ready", "/info", "/demo", "/v1/models", "/metrics", "/openapi.json"):
        assert want in routes, f"{want} is not described, only {routes}"
    for route in routes:
        fits(doc, route, "get", shared().get(route).is_(200))
    assert "post" in doc["paths"]["/predict"]


@test("", "predict's replies, good and bad, fit their schemas")
def predict():
    doc = document()
    for body in (base(), base(return_normalized=True), base(seed=None), json.loads(data("json", "noise_1x50x128.json"))):
        fits(doc, "/predict", "post", shared().post(body).is_(200))
    for body in (b"{", base(seed=-1), base(x=1), base(embodiment="x"), base(images={}), base(state={}), base(instruction="")):
        fits(doc, "/predict", "post", shared().post(body).is_((400, 422)))
    fits(doc, "/predict", "post", shared().post(base(), {"Content-Type": "text/plain"}).is_(415))
    fits(doc, "/predict", "post", shared().raw(s.http("POST", "/predict", headers={"Content-Length": "999999999999", "Content-Type": "application/json"})).one().is_(413))


def walk(node, trail=()):
    if isinstance(node, dict):
        yield trail, node
        for k, v in node.items():
            yield from walk(v, trail + (k,))
    elif isinstance(node, list):
        for i, v in enumerate(node):
            yield from walk(v, trail + (i,))


@test("", "every example fits its schema")
def examples():
    doc = document()
    n = 0
    for trail, node in walk(doc):
        if "schema" not in node or trail[-1:] == ("properties",):
            continue
        values = [node["example"]] if "example" in node else []
        values += [resolve(doc, x)["value"] for x in node.get("examples", {}).values() if "value" in resolve(doc, x)] if isinstance(node.get("examples"), dict) else []
        for value in values:
            n += 1
            schema = node["schema"]
            if resolve(doc, schema).get("type") == "string" and not isinstance(value, str):
                continue
            check(doc, schema, value, f"example at {'/'.join(map(str, trail))}")
    assert n >= 3, f"{n} examples"


@test("", "an example request that is complete works when sent")
def example_works():
    doc = document()
    content = resolve(doc, doc["paths"]["/predict"]["post"]["requestBody"])["content"]["application/json"]
    values = [content["example"]] if "example" in content else [resolve(doc, x)["value"] for x in content.get("examples", {}).values()]
    for value in values:
        value = copy.deepcopy(value)
        for key in value.get("images", {}):
            value["images"][key] = base()["images"][s.CAMERA]  # pictures are shortened in the document
        value.pop("noise", None)
        shared().post(value).is_(200)


@test("", "requests of the tests fit the request schema exactly when they are not 422")
def request_schema():
    _, jsonschema = modules()
    doc = document()
    schema = dict(resolve(doc, doc["paths"]["/predict"]["post"]["requestBody"])["content"]["application/json"]["schema"], components=doc["components"])
    validator = jsonschema.Draft202012Validator(schema)
    for name in ("base.json", "alias_prompt.json", "data_url_png.json", "frame_list_1.json", "state_nested_row.json", "noise_1x50x128.json", "seed_1e15.json"):
        faults = [e.message[:200] for e in validator.iter_errors(json.loads(data("json", name)))]
        assert not faults, f"{name}: {faults}"
    for name in ("unknown_field.json", "seed_negative.json", "prompt_as_list.json", "state_flat_29.json"):
        assert list(validator.iter_errors(json.loads(data("json", name)))), f"{name} fits the schema but is refused"


@test("", "openapi.json is the document, with this robot's names")
def served():
    doc = document()
    r = shared().get("/openapi.json").is_(200)
    got = r.json()
    assert got["openapi"] == doc["openapi"] and list(got["paths"]) == list(doc["paths"]), f"{list(got['paths'])}\n{list(doc['paths'])}"
    for name in (s.CAMERA, *s.GROUPS):
        assert name in json.dumps(got), f"{name} is not in /openapi.json"
    if got != doc:
        differences = [k for k in set(got) | set(doc) if got.get(k) != doc.get(k)]
        raise AssertionError(f"/openapi.json of gr1 differs from docs/openapi.yaml in {differences}: {first_difference(doc, got)}")


def first_difference(a, b, trail=""):
    if type(a) is not type(b):
        return f"{trail}: {str(a)[:200]} / {str(b)[:200]}"
    if isinstance(a, dict):
        for k in list(a) + [k for k in b if k not in a]:
            if a.get(k) != b.get(k):
                return first_difference(a.get(k), b.get(k), f"{trail}/{k}")
    if isinstance(a, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            if x != y:
                return first_difference(x, y, f"{trail}/{i}")
    return f"{trail}: {str(a)[:200]} / {str(b)[:200]}"


if __name__ == "__main__":
    s.main()
