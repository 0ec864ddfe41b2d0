"""The JSON documents: each validates against its schema, and the schemas in docs are the ones of this version."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from specplan.hardware.profile import hardware_schema
from specplan.render.output import plain, to_json
from specplan.render.schemas import DOCUMENTS, json_schema

SCHEMAS = Path(__file__).resolve().parent.parent / "docs" / "schemas"
DEVICE = "--gpu h100 --model llama-3-8b --draft llama-3.2-1b"
CASES = [
    "roofline --gpu a100 --params 13e9",
    "roofline --gpu h100 --model llama-3-70b --tp 4 --batch 8 --context 8k --dtype fp8 --measured-tpot 20ms",
    "roofline --gpu rtx-4090 --model llama-3-8b --width 1..8",
    "roofline --gpu snapdragon-8-elite-npu --model llama-3.2-1b --dtype int4",
    "tree --p 0.6 --budget 14",
    "tree --p 0.6 --budget 100 --mask",
    "tree --p 0.3..0.9 --budget 14",
    "tree --p 0.3..0.5 --k 4",
    "tree --budget 8",
    "tree --p 0 --budget 3",
    "tree --p 1 --budget 3",
    "tree --child-prob 0.05,0.6,0.1 --budget 9",
    "tree --child-prob 0.05,0.6,0.1 --budget 9 --ranked",
    "tree --survival 0.8,0.6,0.4 --k 3",
    "tree --alpha 0.8,0.7 --budget 6 --assume-ranks",
    "tree --accept-length 2.8 --k 5",
    "tree --accept-rate 0.36 --k 5 --budget 6 --assume-ranks",
    f"tree --p 0.6 {DEVICE}",
    f"tree --p 0.6 {DEVICE} --time ideal --budget 600 --max-depth 3 --max-children 4",
    f"tree {DEVICE}",
    f"plan --p 0.6 {DEVICE}",
    f"plan {DEVICE}",
    f"plan --p 0.02 {DEVICE} --overhead 40ms",
    f"plan --p 0.7 {DEVICE} --batch 1..16 --budget 16 --families --explain",
    "tree --p 0.6 --budget 14 --families --explain",
    "tree --survival 0.8,0.6 --k 2 --explain",
    "simulate --p 0.6 --budget 14 --rounds 1000",
    "sweep --gpu a100,rtx-4090 --model llama-3-70b --tp 4 --method chain,medusa --p 0.5,0.7 --pivot gpu,p,speedup",
    "sweep --gpu a100 --params 13e9 --draft-pass 1ms",
    f"plan --accept-length 2.8 --k 5 {DEVICE} --batch 16 --context 4k",
]


@pytest.mark.parametrize("arguments", CASES)
def test_a_document_validates_against_its_schema(specplan, arguments):
    ran = specplan(f"{arguments} --json")
    assert ran.code == 0, ran.err
    jsonschema.validate(ran.json, json_schema(arguments.split()[0]))
    assert specplan(arguments).out.splitlines()[0].endswith((".", ".)"))


@pytest.mark.parametrize("verb", DOCUMENTS)
def test_the_schemas_in_docs_are_up_to_date(verb):
    file = SCHEMAS / f"{verb}.schema.json"
    assert json.loads(file.read_text()) == json_schema(verb), "run python docs/refresh.py"


def test_the_profile_schema_that_ships_is_up_to_date():
    file = SCHEMAS.parent.parent / "hardware" / "profile.schema.json"
    assert json.loads(file.read_text()) == hardware_schema(), "run python docs/refresh.py"


def test_non_finite_numbers_become_null():
    assert plain({"a": float("nan"), "b": (float("inf"), 1)}) == {"a": None, "b": [None, 1]}
    assert json.loads(to_json({"a": 1.5})) == {"a": 1.5}
