"""What is generated from the table of keys is up to date, and right by an independent validator."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from rewrite import resources
from rewrite.target import schema

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "targets").glob("*.yaml"))


def test_json_schema_is_up_to_date():
    assert (ROOT / "targets" / "schema.json").read_text() == schema.json_schema()


def test_key_table_in_the_guide_is_up_to_date():
    assert schema.key_table() in (ROOT / "docs" / "targets.md").read_text()


def test_json_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(json.loads(schema.json_schema()))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_shipped_targets_satisfy_the_json_schema(path):
    jsonschema.validate(yaml.safe_load(path.read_text()), json.loads(schema.json_schema()))


@pytest.mark.parametrize(
    "text",
    ["vector_bytes: wide", "packss: []", "groups: 1", "opset: [1, 2, 3]", "isa: {cup: x}"],
)
def test_json_schema_refuses_what_the_loader_refuses(text):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), json.loads(schema.json_schema()))


def test_every_shipped_target_is_found():
    assert list(resources.shipped("targets")) == [path.stem for path in FILES]
