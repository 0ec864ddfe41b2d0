"""Hand-written settings: what a stack accepts, refuses, or takes and does something else with."""

from __future__ import annotations
import __future__

import ast
import importlib.util
import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.render.schemas import json_schema
from specplan.search.space import Dynamic
from specplan.stacks import _sglang_check
from specplan.stacks.capability import no_rules
from specplan.stacks.check import judge, load_adaptive, stack_of_settings
from specplan.stacks.growmap import growmap
from specplan.stacks.registry import stack_of, stacks
from specplan.stacks.settings_text import parse_settings, read_settings

T5 = [[0], [1], [0, 0], [0, 1], [1, 0]]


def judged(text, to=None, meant=None):
    settings = parse_settings(text if isinstance(text, str) else json.dumps(text))
    stack, capability, version = stack_of(to) if to else stack_of(stack_of_settings(settings).name)
    return judge(settings, stack, capability, version, meant=meant)


ACCEPTED = [
    ("medusa", T5),
    ("medusa", [[0], [2], [2, 5]]),
    ("hydra", T5),
    ("eagle1", [[0], [3], [3, 1]]),
    ("sequoia", growmap(TokenTree.from_paths(T5))),
    ("umbrella", growmap(TokenTree.from_paths(T5))),
    ("umbrella", {"engine": "static", "growmap_path": "tree.json", "model": "m", "draft_model": "d"}),
    ("specinfer", "--expansion-degree 3"),
    ("eagle", {"total_token": 60, "depth": 7, "top_k": 10}),
    (
        "sglang",
        "--speculative-algorithm EAGLE3 --speculative-num-steps 2 --speculative-eagle-topk 2 "
        "--speculative-num-draft-tokens 6 --speculative-draft-model-path x",
    ),
    (
        "sglang",
        "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 4",
    ),
    ("sglang", {"1": {"candidate_steps": [4]}, "5": {"candidate_steps": [2]}, "17": {"candidate_steps": [0]}}),
    ("vllm", {"method": "eagle3", "model": "org/draft", "num_speculative_tokens": 5}),
    (
        "vllm",
        {
            "method": "mtp",
            "num_speculative_tokens": 4,
            "num_speculative_tokens_per_batch_size": [[1, 4, 4], [5, 16, 2], [17, 512, 0]],
        },
    ),
    ("vllm", 'vllm serve m --speculative-config \'{"method": "ngram", "num_speculative_tokens": 3}\' -tp 2'),
    ("vllm", "--spec-method eagle3 --spec-model org/draft --spec-tokens 3"),
    ("vllm@0.11.0", {"method": "eagle", "model": "d", "num_speculative_tokens": 2, "disable_by_batch_size": 8}),
    (
        "trtllm",
        {"speculative_config": {"decoding_type": "MTP", "max_draft_len": 4, "draft_len_schedule": {"4": 4, "16": 2}}},
    ),
    (
        "trtllm",
        {
            "decoding_type": "Eagle3",
            "max_draft_len": 2,
            "use_dynamic_tree": True,
            "dynamic_tree_max_topK": 2,
            "max_total_draft_tokens": 4,
            "speculative_model": "d",
        },
    ),
    ("trtllm@1.3", {"decoding_type": "Eagle", "speculative_model_dir": "d", "eagle_choices": T5, "max_draft_len": 2}),
    ("llamacpp", "llama-server -m x --spec-type draft-simple --spec-draft-n-max 5 --spec-draft-n-min 0"),
    (
        "transformers",
        {"num_assistant_tokens": 5, "num_assistant_tokens_schedule": "constant", "assistant_confidence_threshold": 0.0},
    ),
    ("lmdeploy", "--speculative-algorithm eagle3 --speculative-num-draft-tokens 5"),
    ("mlc", "--speculative-mode small_draft --spec-draft-length 5"),
    ("tgi", "--speculate 3"),
    ("layerskip", "--exit_layer 8 --num_speculations 6 --generation_strategy self_speculative"),
    ("exllamav2", {"num_draft_tokens": 5}),
    ("exllamav3", {"num_draft_tokens": 5}),
    ("atom", "--method mtp --num-speculative-tokens 3 --spec-decode-acceptance-length 2.5"),
    ("aiconfigurator", "--nextn 3 --nextn-accepted 1.9"),
]


@pytest.mark.parametrize(("to", "settings"), ACCEPTED)
def test_what_a_stack_takes_is_accepted(to, settings):
    found = judged(settings, to)
    assert found.accepted, found.problems
    assert not found.silent


# (stack, settings, kind, part of the message that names the constraint)
CHAIN = "--speculative-algorithm EAGLE3 "
WRONG = [
    # lists of paths
    ("medusa", [[0], [10]], "silent", r"path \[10\] has rank 10, above 9"),
    ("medusa", [[0], [1, 0]], "refused", r"path \[1, 0\] has no parent \[1\]"),
    ("medusa", [[0], [0, 0, 0]], "refused", r"no parent \[0, 0\]"),
    ("medusa", [[0], [1], [0]], "silent", r"path \[0\] is listed 2 times"),
    ("medusa", [[1], [2], [1, 1]], "silent", "ranks count from 0"),
    ("medusa", [[], [0]], "refused", "the empty path"),
    ("medusa", [], "refused", "empty"),
    ("medusa", [[0], [0.5]], "refused", "whole numbers"),
    ("medusa", {"medusa_choices": [[0], [0, 0], [0, 0, 0]], "server.heads": 2}, "refused", "3 levels and 2 heads"),
    ("medusa", "[[0], (1,)]", "refused", "mixed"),
    ("hydra", [[0], [2]], "silent", r"path \[2\] comes without \[1\]"),
    ("hydra", [[0], [1], [1, 0]], "silent", r"\[1\] has children and \[0\] before it has none"),
    ("hydra", [[0], [0, 10]], "silent", "rank 10"),
    ("eagle1", [[0], [1]], "refused", "at least 2 are needed"),
    ("eagle1", [[0], [0, 0, 1]], "refused", "no parent"),
    ("eagle1", [[0], [0, 11]], "silent", "rank 11"),
    # growmaps
    ("umbrella", {**growmap(TokenTree.from_paths(T5)), "size": 5}, "silent", "size disagrees"),
    ("umbrella", {"Successors": [[1], []], "size": 2}, "refused", "KeyError"),
    ("sequoia", {**growmap(TokenTree.chain(2)), "Successors": [[2], [], [1]]}, "silent", "not numbered breadth first"),
    ("umbrella", {"engine": "static"}, "refused", "asserts that there is one"),
    ("umbrella", {"engine": "dynamic", "growmap_path": "x"}, "silent", "reads no growmap"),
    ("specinfer", "--expansion-degree 4", "refused", "beam width of 3"),
    # EAGLE-2/3
    ("eagle", {"total_token": 6, "depth": 5, "top_k": 1}, "silent", "5 drafts 6 levels for 5 nodes"),
    ("eagle", {"total_token": 60, "depth": 1, "top_k": 4}, "refused", r"pool of top_k \+ depth top_k\^2 = 20"),
    ("eagle", {"total_token": 60, "tree_choices": T5}, "silent", "no effect"),
    # SGLang
    ("sglang", CHAIN + "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4", "refused", "AssertionError"),
    ("sglang", CHAIN + "--speculative-num-steps 3", "refused", "TypeError"),
    ("sglang", CHAIN + "--speculative-num-steps 3 --speculative-eagle-topk 4", "refused", "nothing chooses it"),
    (
        "sglang",
        CHAIN + "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 8",
        "silent",
        "8 becomes 4",
    ),
    (
        "sglang",
        CHAIN + "--speculative-num-steps 2 --speculative-eagle-topk 2 --speculative-num-draft-tokens 8",
        "refused",
        r"topk \+ \(steps - 1\) topk\^2 = 6",
    ),
    (
        "sglang",
        CHAIN + "--speculative-num-steps 5 --speculative-eagle-topk 4 --speculative-num-draft-tokens 4",
        "silent",
        "passes are lost",
    ),
    (
        "sglang",
        CHAIN + "--speculative-num-steps 2 --speculative-eagle-topk 2 --speculative-num-draft-tokens 6 --page-size 64",
        "refused",
        "pages of 64 tokens with topk 2",
    ),
    (
        "sglang",
        CHAIN + "--speculative-num-steps 2 --speculative-eagle-topk 2 --speculative-num-draft-tokens 6 "
        "--attention-backend trtllm_mha",
        "refused",
        "trtllm_mha takes topk 1",
    ),
    (
        "sglang",
        CHAIN + "--speculative-num-steps 2 --speculative-eagle-topk 2 --speculative-num-draft-tokens 6 "
        "--speculative-use-rejection-sampling",
        "refused",
        "needs topk 1",
    ),
    (
        "sglang",
        "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
        "silent",
        "speculation is off",
    ),
    ("sglang", CHAIN + "--speculative-num-step 3 --speculative-topk 1", "refused", "does not know 'speculative_topk'"),
    ("sglang", "--speculative-algorithm EAGLE9 --speculative-num-steps 3", "refused", "is none of"),
    (
        "sglang",
        CHAIN + "--speculative-num-steps 3 --speculative-eagle-topk 2 --speculative-num-draft-tokens 6 "
        "--speculative-adaptive",
        "silent",
        "for topk 1, not 2",
    ),
    (
        "sglang",
        "--speculative-algorithm STANDALONE --speculative-num-steps 3 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 4 --speculative-adaptive",
        "silent",
        "not STANDALONE",
    ),
    (
        "sglang",
        CHAIN + "--speculative-adaptive-config x.json --speculative-num-steps 3 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 4",
        "silent",
        "without --speculative-adaptive",
    ),
    ("sglang", {"5": {"candidate_steps": [2]}}, "silent", "batches below 5 use its lengths too"),
    ("sglang", {"1-4": {"candidate_steps": [2]}}, "refused", "no key is a batch size"),
    (
        "sglang",
        {"1": {"candidate_steps": [3]}, "5-16": {"candidate_steps": [2]}},
        "silent",
        "'5-16' is no whole number",
    ),
    ("sglang", {"1": {"candidate_steps": 3}}, "refused", "a list of whole numbers"),
    (
        "sglang",
        {
            "speculative_algorithm": "EAGLE",
            "speculative_adaptive": True,
            "speculative_num_steps": 5,
            "speculative_adaptive_config": {"1": {"candidate_steps": [4]}},
        },
        "refused",
        "5 is none of",
    ),
    (
        "sglang",
        CHAIN + "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 --max-batch 64",
        "silent",
        "it becomes 48",
    ),
    (
        "sglang",
        "--speculative-algorithm DFLASH --speculative-num-steps 4 --speculative-draft-model-path d",
        "silent",
        "4 becomes 1",
    ),
    (
        "sglang",
        "--speculative-algorithm DSPARK --speculative-dspark-block-size 5 --speculative-num-draft-tokens 5 "
        "--speculative-draft-model-path d",
        "refused",
        "asks for 6",
    ),
    ("sglang", "--speculative-algorithm NGRAM --speculative-eagle-topk 4", "silent", "4 becomes 10"),
    (
        "sglang",
        "--speculative-algorithm UNO --speculative-num-steps 7 --speculative-eagle-topk 16 "
        "--speculative-num-draft-tokens 200",
        "refused",
        r"not in \[8, 128\]",
    ),
    (
        "sglang",
        "SGLANG_SIMULATE_ACC_LEN=5.5 --speculative-algorithm EAGLE --speculative-num-steps 3 "
        "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
        "refused",
        r"5.5.*in \[1, 4\]",
    ),
    (
        "sglang",
        "--speculative-algo NEXTN --speculative-num-steps 4 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 5 --enable-prefix-caching",
        "refused",
        "no such flag, it is vLLM's",
    ),
    # vLLM
    ("vllm", {"method": "eagle3", "model": "d"}, "refused", "has to be given"),
    ("vllm", {"method": "eagle3", "model": "d", "num_speculative_tokens": 0}, "refused", "at least 1"),
    ("vllm", {"method": "eagle3", "num_speculative_tokens": 3}, "refused", "none is named"),
    ("vllm", {"method": "medusa", "model": "d", "num_speculative_tokens": 3}, "refused", "gone in 0.33.0"),
    ("vllm", {"method": "mtp", "num_speculative_tokens": 7, "server.n_predict": 5}, "refused", "n_predict 5"),
    ("vllm", {"method": "mtp", "num_speculative_tokens": 2, "tensor_parallel_size": 2}, "refused", "draft_tensor"),
    (
        "vllm",
        {
            "speculative_config": {
                "method": "draft_model",
                "model": "d",
                "num_speculative_tokens": 2,
                "draft_tensor_parallel_size": 2,
            },
            "tensor_parallel_size": 4,
        },
        "refused",
        "target's 4",
    ),
    (
        "vllm",
        {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_min": 6, "prompt_lookup_max": 4},
        "refused",
        "above prompt_lookup_max",
    ),
    ("vllm", {"method": "mtp", "num_speculative_tokens": 2, "disable_by_batch_size": 8}, "refused", "gone after 0.11"),
    ("vllm", {"method": "mtp", "num_spec_tokens": 2}, "refused", "did you mean 'num_speculative_tokens'"),
    (
        "vllm",
        {"method": "eagle", "model": "d", "num_speculative_tokens": 2, "speculative_token_tree": "[(0,), (1,)]"},
        "refused",
        "removed in 0.21",
    ),
    (
        "vllm@0.21.0",
        {"method": "mtp", "num_speculative_tokens": 4, "num_speculative_tokens_per_batch_size": [[1, 4, 4]]},
        "refused",
        "came after 0.21.0",
    ),
    (
        "vllm",
        {"method": "mtp", "num_speculative_tokens": 4, "num_speculative_tokens_per_batch_size": {"1-16": 3}},
        "refused",
        "a map is an early form",
    ),
    (
        "vllm",
        {
            "method": "mtp",
            "num_speculative_tokens": 4,
            "num_speculative_tokens_per_batch_size": [[1, 4, 4], [9, 16, 2], [17, 512, 0]],
        },
        "silent",
        "batches 5 to 8 are in no range: K 4 goes on",
    ),
    (
        "vllm",
        {
            "method": "mtp",
            "num_speculative_tokens": 4,
            "num_speculative_tokens_per_batch_size": [[1, 4, 6], [5, 512, 0]],
        },
        "silent",
        "to which it is cut",
    ),
    (
        "vllm",
        {"method": "mtp", "num_speculative_tokens": 4, "num_speculative_tokens_per_batch_size": [[2, 4, 4]]},
        "refused",
        "begins at 2",
    ),
    (
        "vllm",
        {"method": "mtp", "num_speculative_tokens": 4, "num_speculative_tokens_per_batch_size": [[1, 8, 4], [8, 9, 2]]},
        "refused",
        "overlap",
    ),
    (
        "vllm",
        {"method": "mtp", "num_speculative_tokens": 4, "num_speculative_tokens_per_batch_size": [[1, 4]]},
        "refused",
        "three whole numbers",
    ),
    (
        "vllm",
        {
            "speculative_config": {
                "method": "mtp",
                "num_speculative_tokens": 4,
                "num_speculative_tokens_per_batch_size": [[1, 4, 4]],
            },
            "max_num_seqs": 256,
        },
        "silent",
        "batches 5 to 256 are in no range",
    ),
    (
        "vllm",
        {
            "method": "mtp",
            "num_speculative_tokens": 2,
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_rates": [0.5, 0.6],
        },
        "refused",
        "the rates rise",
    ),
    (
        "vllm",
        {
            "method": "mtp",
            "num_speculative_tokens": 2,
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_length": 3.5,
        },
        "refused",
        r"in \[1, 3\]",
    ),
    (
        "vllm",
        '--spec-tokens 3 --speculative-config \'{"method":"mtp","num_speculative_tokens":2}\'',
        "refused",
        "both say",
    ),
    (
        "vllm@0.20.2",
        {"method": "eagle", "model": "d", "speculative_token_tree": "[(0,), (1,)]"},
        "refused",
        "has to be given",
    ),
    (
        "vllm@0.20.2",
        {
            "method": "eagle",
            "model": "d",
            "num_speculative_tokens": 5,
            "speculative_token_tree": str([tuple(path) for path in T5]),
        },
        "silent",
        "not uniform",
    ),
    (
        "vllm@0.20.2",
        {
            "method": "eagle",
            "model": "d",
            "num_speculative_tokens": 4,
            "speculative_token_tree": "[(0,), (1,), (0, 0), (0, 0, 0)]",
        },
        "refused",
        "crashes on a tensor's size",
    ),
    (
        "vllm@0.20.2",
        {"method": "eagle", "model": "d", "num_speculative_tokens": 3, "speculative_token_tree": "[(0,), (1,)]"},
        "silent",
        "the tree has 2 nodes",
    ),
    (
        "vllm@0.20.2",
        {"method": "eagle", "model": "d", "num_speculative_tokens": 2, "speculative_token_tree": "[(0,), (1,)]"},
        "silent",
        "verifies branches as one chain",
    ),
    (
        "vllm@0.20.2",
        {"method": "eagle", "model": "d", "num_speculative_tokens": 2, "speculative_token_tree": "[(0), (1)]"},
        "refused",
        "a number in Python",
    ),
    # TensorRT-LLM
    (
        "trtllm@1.3",
        {"decoding_type": "Eagle", "speculative_model_dir": "d", "eagle_choices": [[0], [0, 0]], "max_draft_len": 2},
        "refused",
        "a chain written as a tree crashes",
    ),
    (
        "trtllm@1.3",
        {"decoding_type": "Eagle", "speculative_model_dir": "d", "eagle_choices": [[0], [1]], "max_draft_len": 1},
        "refused",
        "one level crashes",
    ),
    (
        "trtllm@1.3",
        {"decoding_type": "Eagle", "speculative_model_dir": "d", "eagle_choices": [[0], [1, 0]], "max_draft_len": 2},
        "refused",
        "not connected",
    ),
    (
        "trtllm@1.3",
        {
            "decoding_type": "Eagle",
            "speculative_model_dir": "d",
            "eagle_choices": [[0], [2], [0, 0]],
            "max_draft_len": 2,
        },
        "silent",
        r"comes without \[1\]",
    ),
    (
        "trtllm@1.3",
        {"decoding_type": "Eagle", "speculative_model_dir": "d", "eagle_choices": T5, "max_draft_len": 5},
        "silent",
        "5 is reset to 2",
    ),
    (
        "trtllm@1.3",
        {
            "decoding_type": "Medusa",
            "num_medusa_heads": 5,
            "speculative_model_dir": "d",
            "max_draft_len": 2,
            "medusa_choices": [[0], [1, 0]],
        },
        "silent",
        "the root's child",
    ),
    (
        "trtllm@1.3",
        {
            "decoding_type": "Medusa",
            "num_medusa_heads": 5,
            "speculative_model_dir": "d",
            "max_draft_len": 2,
            "medusa_choices": [[0], [16]],
        },
        "silent",
        "rank 16, above 15",
    ),
    (
        "trtllm",
        {"decoding_type": "Eagle3", "speculative_model": "d", "max_draft_len": 2, "eagle_choices": T5},
        "refused",
        "removed for 1.4",
    ),
    (
        "trtllm",
        {"decoding_type": "Eagle3", "speculative_model": "d", "max_draft_len": 3, "dynamic_tree_max_topK": 4},
        "silent",
        "use_dynamic_tree: true turns trees on",
    ),
    (
        "trtllm",
        {
            "decoding_type": "Eagle3",
            "speculative_model": "d",
            "max_draft_len": 2,
            "use_dynamic_tree": True,
            "dynamic_tree_max_topK": 2,
            "max_total_draft_tokens": 5,
        },
        "refused",
        r"5 is not in \[2, 4\]",
    ),
    (
        "trtllm",
        {"decoding_type": "Eagle3", "speculative_model": "d", "max_draft_len": 2, "use_dynamic_tree": True},
        "refused",
        "above 0 with use_dynamic_tree",
    ),
    (
        "trtllm",
        {"decoding_type": "MTP", "max_draft_len": 4, "draft_len_schedule": {"4": 2, "16": 4}},
        "refused",
        "smallest key 4 is 2 and has to be max_draft_len, 4",
    ),
    (
        "trtllm",
        {"decoding_type": "MTP", "max_draft_len": 4, "draft_len_schedule": {"4": 4, "16": 5}},
        "refused",
        "length 5 is above",
    ),
    (
        "trtllm",
        {"decoding_type": "MTP", "max_draft_len": 4, "draft_len_schedule": {"1-4": 4}},
        "refused",
        "whole number",
    ),
    (
        "trtllm",
        {"decoding_type": "MTP", "max_draft_len": 4, "draft_len_schedule": {"4": 4}, "max_concurrency": 8},
        "refused",
        "max_concurrency",
    ),
    ("trtllm", {"decoding_type": "MTP", "max_draft_len": 4, "num_draft_tokens": 3}, "refused", "does not know"),
    ("trtllm", {"decoding_type": "Eagle3", "max_draft_len": 4}, "refused", "needs a draft model"),
    (
        "trtllm",
        "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS=4 --decoding_type MTP --max_draft_len 3",
        "refused",
        "the bonus token not counted",
    ),
    # llama.cpp
    ("llamacpp", "--draft-max 16 --draft-min 2", "refused", "use --spec-draft-n-max"),
    ("llamacpp", "--draft 16", "refused", "--draft is removed"),
    ("llamacpp", "LLAMA_ARG_DRAFT_MAX=16 llama-server --spec-type draft-simple", "silent", "is not read"),
    ("llamacpp", "--spec-type draft-simpel", "refused", "did you mean 'draft-simple'"),
    ("llamacpp", "--spec-draft-n-max 4 --spec-draft-n-min 5", "silent", "nothing is ever drafted"),
    ("llamacpp", "--spec-draft-n-max 4 --spec-draft-p-split 0.2", "silent", "the server drafts one chain"),
    ("llamacpp", "--spec-draft-n-max 3 --spec-synth-rates 0.8,0.5", "refused", "exactly as many"),
    ("llamacpp", "--spec-draft-n-max -1", "refused", "at least 0"),
    # chains
    ("transformers", {"num_assistant_tokens": 5, "num_assistant_tokens_schedule": "heuristic"}, "silent", "moves away"),
    (
        "transformers",
        {"num_assistant_tokens": 5, "num_assistant_tokens_schedule": "fixed"},
        "silent",
        "counts as constant",
    ),
    ("transformers", {"num_assistant_token": 5}, "silent", "keeps any name"),
    ("transformers", {"prompt_lookup_num_tokens": 0}, "refused", "at least 1"),
    ("lmdeploy", "--speculative-algorithm EAGLE --speculative-num-draft-tokens 5", "refused", "is not known"),
    ("lmdeploy", "--speculative-num-draft-tokens 5", "silent", "speculation is off"),
    ("mlc", "--speculative-mode small_draft --spec-draft-length 0", "silent", "0 is automatic, not off"),
    ("tgi", '{"speculate": 5, "medusa_num_heads": 3}', "refused", "above the 3 Medusa heads"),
    ("layerskip", "--exit_layer 8 --num_speculations -1", "silent", "plain decoding"),
    ("exllamav2", {"num_draft_tokens": 12}, "refused", "max_q_size 8"),
    ("exllamav3", {"num_draft_tokens": 4, "draft_confidence": 1.0}, "refused", "not between 0 and 1"),
    ("exllamav3", {"num_draft_tokens": 0}, "silent", "0 is not off"),
    (
        "atom",
        {"method": "mtp", "num_speculative_tokens": 3, "spec_decode_acceptance_length": 5.0},
        "refused",
        r"in \[1, 4\]",
    ),
    ("aiconfigurator", {"nextn": 3, "nextn_accept_rates": [0.85, 0.3]}, "refused", "gone in 0.12"),
    ("aiconfigurator", {"nextn": 3, "nextn_accepted": 3.5}, "refused", r"in \[0, 3\]"),
    ("aiconfigurator", {"nextn": 3}, "refused", "required"),
    ("ollama", {"num_draft": 3}, "silent", "no such setting"),
]


@pytest.mark.parametrize(("to", "settings", "kind", "message"), WRONG)
def test_what_a_stack_refuses_or_takes_otherwise_is_caught_with_its_constraint(to, settings, kind, message):
    import re

    found = judged(settings, to)
    assert not found.accepted
    texts = [problem.text for problem in found.problems if problem.kind == kind]
    assert any(re.search(message, text) for text in texts), found.problems
    assert found.silent or kind == "refused"


def test_every_stack_has_a_real_check():
    assert [stack.name for stack in stacks().values() if stack.check is no_rules] == []
    covered = {to.partition("@")[0] for to, *_ in WRONG}
    assert covered == set(stacks())


def test_an_export_of_any_stack_passes_its_own_check():
    """What specplan writes is what it would accept."""
    from specplan.stacks.capability import Wanted
    from specplan.stacks.exporting import export_to

    survival = (0.8, 0.6, 0.4)
    for stack in stacks().values():
        for capability in stack.capabilities:
            if capability.family == "none":
                continue
            version = stack.read if capability is stack.capabilities[0] else capability.until or capability.since
            tree = TokenTree.from_paths(T5) if capability.family == "static" else TokenTree.chain(3)
            method = "eagle3" if "eagle3" in capability.methods else capability.methods[0]
            wanted = Wanted(tree, method=method, draft="org/draft", exit_layer=4, survival=survival, heads=5)
            export = export_to(stack, capability, version, wanted)
            settings = parse_settings(json.dumps(dict(export.settings)))
            if stack.name == "sequoia":
                settings = export.buffers
            if stack.name == "umbrella":
                settings["growmap_path"] = export.buffers
            found = judge(settings, stack, capability, version, meant=tree)
            assert found.accepted, (stack.name, version, found.problems)


# ---- SGLang's own source, where it is installed


def sglang_source(*parts):
    spec = importlib.util.find_spec("sglang")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("sglang is not installed")
    return ast.parse(Path(spec.submodule_search_locations[0]).joinpath("srt", *parts).read_text())


def test_the_flags_that_are_known_are_those_of_sglang():
    module = sglang_source("arg_groups", "fields", "spec.py")
    [spec] = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == "Spec"]
    fields = {
        node.target.id.removeprefix("speculative_"): ast.unparse(node.annotation)
        for node in spec.body
        if isinstance(node, ast.AnnAssign) and node.target.id.startswith("speculative_")
    }
    flags = {name for name, annotation in fields.items() if "no_cli=True" not in annotation}
    assert flags == set(_sglang_check.FLAGS) - {"draft_model"}
    assert "'--speculative-draft-model'" in fields["draft_model_path"]


def test_sglangs_own_reader_takes_what_the_check_takes(tmp_path):
    """Its `_load_adaptive_config`, run on lengths by batch size that are right and wrong."""
    module = sglang_source("speculative", "adaptive_spec_params.py")
    code = [node for node in module.body if getattr(node, "name", "") == "_load_adaptive_config"]
    names = {"json": json}
    exec(compile(ast.Module(code, []), "adaptive", "exec", flags=__future__.annotations.compiler_flag), names)
    for tiers in (
        {"1": {"candidate_steps": [4]}, "5": {"candidate_steps": [2, 0]}},
        {"1": {"candidate_steps": []}},
        {"1": {"candidate_steps": 3}},
        {"1": {"candidate_steps": [-1]}},
        {"1-4": {"candidate_steps": [3]}},
        {"5-16": {"candidate_steps": [3]}, "1": {"candidate_steps": [3]}},
    ):
        file = tmp_path / "adaptive.json"
        file.write_text(json.dumps(tiers))
        refused = any(problem.kind == "refused" for problem in judged(tiers, "sglang").problems)
        if refused:
            with pytest.raises(ValueError, match=r"candidate_steps|BS key"):
                names["_load_adaptive_config"](str(file))
        else:
            assert names["_load_adaptive_config"](str(file))[1]


# ---- which shape is meant


def test_an_off_by_one_is_named_when_the_shape_is_known():
    """One tool's SGLang command for K = 3 has 4 steps and 5 draft tokens: consistent, and another length."""
    text = (
        "--speculative-algorithm NEXTN --speculative-num-steps 4 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 5"
    )
    assert judged(text).accepted
    found = judged(text, meant=TokenTree.chain(3))
    assert (found.accepted, found.silent) == (False, True)
    assert "stands for a chain of 4, not for a chain of 3: off by one?" in found.problems[0].text
    assert judged({"total_token": 6, "depth": 4, "top_k": 1}, meant=TokenTree.chain(5)).accepted
    assert not judged({"total_token": 7, "depth": 5, "top_k": 1}, meant=TokenTree.chain(5)).accepted


def test_the_shape_that_settings_stand_for_is_said():
    assert judged("--expansion-degree 2", "specinfer").shape is None
    assert judged(T5, "medusa").shape == Dynamic(2, 2, 5)
    assert judged({"total_token": 60, "depth": 7, "top_k": 10}).shape == Dynamic(8, 10, 59)
    assert judged({"num_speculative_tokens": 4, "method": "mtp"}).shape == Dynamic(4, 1, 4)


# ---- reading settings


@pytest.mark.parametrize(
    ("text", "stack"),
    [
        ("--speculative-num-steps 3", "sglang"),
        ('{"num_speculative_tokens": 3, "method": "mtp"}', "vllm"),
        ('{"speculative_config": {"max_draft_len": 3, "decoding_type": "MTP"}}', "trtllm"),
        ("--draft-max 3", "llamacpp"),
        ("num_assistant_tokens: 5", "transformers"),
        ('{"medusa_choices": [[0]]}', "medusa"),
        ('{"total_token": 60}', "eagle"),
        ("--nextn 3", "aiconfigurator"),
    ],
)
def test_the_stack_is_known_by_the_names_of_its_settings(text, stack, tmp_path):
    if text[0] not in "-{":
        file = tmp_path / "settings.yaml"
        file.write_text(text)
        assert stack_of_settings(read_settings(str(file))).name == stack
    else:
        assert stack_of_settings(parse_settings(text)).name == stack


def test_settings_of_no_stack_are_refused_with_a_way_out():
    with pytest.raises(InputError, match="whose settings") as error:
        stack_of_settings({"temperature": 0.5})
    assert "--to" in error.value.hint
    with pytest.raises(InputError, match="exllamav2 and exllamav3"):
        stack_of_settings({"num_draft_tokens": 5})


@pytest.mark.parametrize(
    "text", ["--a 1 --a 2", "--speculative-config '{\"a\": NaN}'", "{", "[1, 2", "--x 'unclosed", "- - -", '"text"']
)
def test_what_are_no_settings_is_refused(text):
    with pytest.raises(InputError):
        stack_of_settings(parse_settings(text))


def test_a_file_of_lengths_is_read_beside_the_settings(tmp_path):
    (tmp_path / "adaptive.json").write_text('{"1": {"candidate_steps": [3]}}')
    settings = {"speculative_adaptive_config": "adaptive.json"}
    assert load_adaptive(settings, tmp_path)["speculative_adaptive_config"] == {"1": {"candidate_steps": [3]}}
    assert load_adaptive(settings, tmp_path / "other") == settings


NAMES = sorted({name for stack in stacks().values() for at in stack.capabilities for name in at.settings})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 70) | st.floats(allow_nan=False) | st.sampled_from(["", "auto", "1,2"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["1", "5-16", *NAMES]), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*NAMES, "paths", "spec_synth_rates"]), VALUES, min_size=1, max_size=5))
@settings(max_examples=150)
def test_any_settings_are_judged_or_refused_cleanly(given_settings):
    for stack in stacks().values():
        try:
            found = judge(given_settings, stack, stack.capabilities[-1], stack.capabilities[-1].since or stack.read)
        except InputError as error:
            assert error.hint
        else:
            assert found.accepted == (not any(problem.kind != "note" for problem in found.problems))


# ---- the command


def test_the_command_judges_and_says_the_shape(specplan):
    flags = "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
    ran = specplan(
        [
            "export",
            "--to",
            "sglang",
            "--json",
            "--check",
            f"{CHAIN}{flags} --max-running-requests 64 --speculative-draft-model-path x",
        ]
    )
    assert ran.code == 0, ran.err
    assert (ran.json["accepted"], ran.json["silent"], ran.json["problems"]) == (True, False, [])
    assert ran.json["shape"] == {"steps": 3, "topk": 1, "nodes": 3}
    jsonschema.validate(ran.json, json_schema("check"))


def test_settings_that_are_not_accepted_exit_with_1_and_say_why(specplan, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("speculative_config:\n  decoding_type: MTP\n  max_draft_len: 4\n  draft_len_schedule: {4: 2}\n")
    ran = specplan(f"export --check {file}")
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert lines[0] == "TensorRT-LLM 1.4 refuses the settings: 1 problem."
    assert "smallest key 4 is 2" in ran.out
    as_json = specplan(f"export --check {file} --json")
    assert (as_json.code, as_json.json["accepted"], as_json.json["silent"]) == (1, False, False)
    jsonschema.validate(as_json.json, json_schema("check"))


def test_a_bare_list_of_paths_is_judged_for_the_stack_that_is_named(specplan, refused):
    assert specplan(["export", "--check", str(T5), "--to", "hydra", "--quiet"]).code == 0
    assert specplan(["export", "--check", str(T5), "--to", "medusa", "--heads", "1"]).code == 1
    assert "whose settings" in refused(["export", "--check", str(T5)])
    assert "no form in this stack" in refused(["export", "--check", str(T5), "--to", "sglang"])


def test_settings_are_held_to_the_shape_of_a_plan_or_of_k(specplan):
    chain = CHAIN + "--speculative-num-steps 4 --speculative-eagle-topk 1 --speculative-num-draft-tokens 5"
    assert specplan(["export", "--k", "4", "--check", chain]).code == 0
    ran = specplan(["export", "--k", "3", "--check", chain])
    assert (ran.code, "off by one" in ran.out) == (1, True)


def test_what_cannot_be_judged_is_refused(refused):
    assert "--check judges" in refused(["export", "--check", "--spec-tokens 3", "--sweep"])
    assert "nowhere.json" in refused("export --check nowhere.json")
    assert "is not known" in refused(["export", "--check", "--spec-tokens 3", "--to", "vlm"])
    assert "nothing is known of this version" in refused(["export", "--check", "--spec-tokens 3", "--to", "vllm@0.5"])


COMMANDS = [
    (name, record.until or record.since, method)
    for name, stack in stacks().items()
    for record in stack.capabilities
    for method in record.methods
    if record.family != "none" and (name, method) != ("eagle1", "eagle")  # its choices are a file of its code
]


@pytest.mark.parametrize(("name", "version", "method"), COMMANDS)
def test_the_command_of_an_export_passes_the_check_where_its_files_are(
    specplan, tmp_path, monkeypatch, name, version, method
):
    monkeypatch.chdir(tmp_path)
    newest = stacks()[name].capabilities[0]
    to = name if version is None or newest.since == version else f"{name}@{version}"
    line = f"export --k 4 --to {to} --method {method} --draft org/d --model org/m --exit-layer 8 --p 0.7"
    command = specplan(f"{line} --out {tmp_path}/ --json").json["command"]
    assert specplan(["export", "--check", command, "--to", to, "--json"]).json["accepted"]


def test_settings_in_a_file_that_the_command_names_are_judged_not_the_command(specplan, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "which is not there" in refused(["export", "--check", "trtllm-serve m --config a.yaml", "--to", "trtllm"])
    Path("a.yaml").write_text("speculative_config:\n  decoding_type: MTP\n  max_draft_len: 3\n  typo: 1\n")
    ran = specplan(["export", "--check", "trtllm-serve m --config a.yaml", "--to", "trtllm", "--json"])
    assert ran.code == 1
    assert "typo" in ran.json["problems"][0]["text"]
    served = """vllm serve m --config none.yaml --speculative-config '{"method":"mtp","num_speculative_tokens":2}'"""
    assert specplan(["export", "--check", served, "--json"]).json["accepted"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "speculative_mode=small_draft,spec_draft_length=5",
            {"speculative_mode": "small_draft", "spec_draft_length": 5},
        ),
        (
            "Eagle(a='x y', total_token=60, top_k=10, on=True, off=None)",
            {"a": "x y", "total_token": 60, "top_k": 10, "on": True, "off": None},
        ),
        (
            "serve --speculative-config.method mtp --speculative-config.num_speculative_tokens=2",
            {"method": "mtp", "num_speculative_tokens": 2},
        ),
    ],
)
def test_calls_assignments_and_dotted_flags_are_settings(text, found):
    assert parse_settings(text) == found


def test_choices_do_nothing_in_eagle_2_and_3():
    found = judged("EaModel(total_token=60, depth=7, top_k=10, choices=[[0]])", "eagle")
    assert (found.accepted, found.silent) == (False, True)


def test_a_draft_that_is_not_named_is_noted():
    flags = "--speculative-algorithm {} --speculative-num-steps 3 --speculative-eagle-topk 1"
    for algorithm, noted in (("EAGLE3", True), ("STANDALONE", True), ("NEXTN", False)):
        found = judged(flags.format(algorithm))
        assert any(problem.setting == "speculative_draft_model_path" for problem in found.problems) is noted
