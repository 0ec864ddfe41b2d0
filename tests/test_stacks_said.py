"""What a source means is said, what it cannot mean is refused, and what makes it less than it looks is warned of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specplan.base.errors import InputError
from specplan.base.tree import TokenTree
from specplan.stacks.detect import read_acceptance, read_any

DIALECTS = Path(__file__).parent / "data" / "dialects"
V1 = "SpecDecoding metrics: "
BASE = "vllm:spec_decode_num"


def read(text, **hints):
    return read_any(text if isinstance(text, str) else json.dumps(text), where="case", **hints)


# ---- trees of SGLang


ROWS = [{"batch_size": 1, "steps": 3, "topk": 4, "num_draft_tokens": 16, "acc_length": 2.52, "step_time": 0.02}]
INFO = {
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 4,
    "speculative_num_draft_tokens": 16,
    "internal_states": [{"avg_spec_accept_length": 2.52}],
}
HISTOGRAM = [20, 28, 32, 20]
META = {"completion_tokens": 252, "spec_verify_ct": 100, "spec_correct_drafts_histogram": HISTOGRAM}
ARGUMENTS = "server_args=ServerArgs(speculative_num_steps=3, speculative_eagle_topk=4, speculative_num_draft_tokens=16)"
LOG = "Decode batch, #running-req: 1, accept len: 2.52, accept rate: 0.10, x"
PAGE = "sglang:spec_accept_length 2.52\nsglang:spec_num_steps 3\nsglang:spec_num_draft_tokens 16\n"


@pytest.mark.parametrize(
    ("text", "hints", "tree"),
    [
        (ROWS, {}, {"steps": 3, "topk": 4, "nodes": 15}),
        (INFO, {}, {"steps": 3, "topk": 4, "nodes": 15}),
        (META, {"topk": 4}, {"topk": 4}),
        (f"{ARGUMENTS}\n{LOG}", {}, {"steps": 3, "topk": 4, "nodes": 15}),
        (LOG, {"topk": 4}, {"topk": 4}),
        (PAGE, {}, {"steps": 3, "nodes": 15}),
        (
            {"backend": "sglang", "accept_length": 2.52, "server_info": INFO | {"internal_states": []}},
            {},
            {"steps": 3, "topk": 4, "nodes": 15},
        ),
    ],
)
def test_a_tree_keeps_its_tokens_per_round_and_is_no_chain(text, hints, tree):
    found = read(text, **hints)
    assert found.about["tau"] == pytest.approx(2.52)
    assert found.about["measured_tree"] == tree
    assert any("measured with trees" in said for said in found.about["warnings"])
    with pytest.raises(InputError, match="was not measured"):
        found.tau(TokenTree.chain(3))


def test_the_levels_of_a_measured_tree_give_an_interval_of_its_mean():
    found = read(META, topk=4)
    assert found.about["interval"]["low"] < 2.52 < found.about["interval"]["high"]
    assert found.about["histogram"] == [20, 28, 32, 20]


def test_the_rate_of_a_tree_is_said_to_be_one_of_nodes():
    assert "over the nodes of the tree" in read(LOG, topk=4).notes[0]
    assert "over the nodes" not in read(LOG.replace("0.10", "0.51")).notes[0]


def test_topk_1_in_the_servers_arguments_makes_the_log_one_of_a_chain():
    found = read(f"speculative_eagle_topk=1, speculative_num_steps=3\n{LOG.replace('0.10', '0.51')}")
    assert (found.about["k"], found.kind) == (3, "chain")
    assert not any("--measured-topk" in note for note in found.notes)
    assert any("--measured-topk" in note for note in read(LOG.replace("0.10", "0.51")).notes)


def test_a_plan_from_a_measured_tree_is_refused_and_its_document_reads_back(specplan, refused, tmp_path):
    file, out = tmp_path / "rows.jsonl", tmp_path / "out.json"
    file.write_text(json.dumps(ROWS[0]))
    ran = specplan(["acceptance", str(file), "--json", "--out", str(out)])
    assert ran.json["measured_tree"] == {"steps": 3, "topk": 4, "nodes": 15}
    assert ran.json["warnings"]
    assert "of a tree" in specplan(["acceptance", str(file)]).out.splitlines()[0]
    assert "was not measured" in refused(["tree", "--acceptance", str(out), "--k", "3"])
    device = ["--gpu", "h100", "--model", "llama-3-8b", "--draft", "llama-3.2-1b"]
    for verb in ("plan", "compare"):
        assert "nothing follows for other shapes" in refused([verb, *device, "--acceptance", str(out)])
    assert "nothing follows" in refused(["tree", "--acceptance", str(out), "--budget", "8"])


# ---- bare numbers


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("[0.6, 0.2, 0.1]", "child-prob|survival|alpha"),
        ("[0.6]", "child-prob|survival|alpha"),
        ("[0.8, 0.7, 0.6]", "survival|alpha"),
        ("[0.6, 0.3, 0.1]", "child-prob|survival|alpha|histogram"),
        ('{"1": 20, "2": 28}', "histogram|tokens"),
        ("[100, 80, 52, 33]", "histogram|reached"),
        ('{"0": 100, "1": 80, "2": 52}', "histogram|reached"),
        ('{"0": 0.8, "1": 0.52, "2": 0.33}', "survival|alpha"),
        ('{"1": 0.8, "2": 0.5}', "survival|alpha"),
    ],
)
def test_bare_numbers_that_can_be_several_things_name_the_option(text, kinds):
    with pytest.raises(InputError, match="several things") as error:
        read(text)
    assert f"--as {kinds}" in error.value.hint
    for kind in kinds.split("|"):
        assert read(text, shape=kind).level_survival(TokenTree.chain(1))


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("[20, 28, 19, 33]", "accepted-count-histogram"),
        ('{"0": 20, "3": 33}', "accepted-count-histogram"),
        ('{"0": 0.2, "1": 0.5, "2": 0.3}', "accepted-count-shares"),
        ("[0.0, 0.6, 0.2]", "sequoia-vector"),
        ("[0.7, 0.8, 0.85]", "bare-alpha"),
        ('{"1": 1.8, "3": 2.6}', "lengths-by-k"),
    ],
)
def test_bare_numbers_that_can_be_one_thing_only_are_read(text, dialect):
    assert read(text).about["dialect"] == dialect


def test_what_bare_numbers_are_said_to_be_is_what_they_are():
    chain = TokenTree.chain(2)
    assert read("[0.8, 0.5]", shape="survival").tau(chain) == pytest.approx(2.3)
    assert read("[0.8, 0.5]", shape="alpha").tau(chain) == pytest.approx(2.2)
    assert read("[0.5, 0.3]", shape="child-prob").level_survival(TokenTree.full(2, 1)) == pytest.approx([0.8])
    assert read('{"1": 20, "2": 30}', shape="tokens").about["tau"] == pytest.approx(1.6)
    assert read('{"1": 20, "2": 30}', shape="histogram").about["tau"] == pytest.approx(2.6)
    assert read('{"2": 2.4}', shape="by-k").tau(chain) == 2.4
    assert read("[100, 80, 52]", shape="reached").tau(chain) == pytest.approx(2.32)
    assert read('{"0": 100, "1": 80, "2": 52}', shape="reached").counts.rounds == 100


@pytest.mark.parametrize("text", ["[100]", "[0, 0]", "[100, 120, 40]", "[100, -1]", '{"1": 80, "2": 52}'])
def test_counts_that_cannot_have_reached_their_positions_are_refused(text):
    with pytest.raises(InputError):
        read(text, shape="reached")


def test_the_option_is_refused_where_the_file_says_itself(refused, specplan):
    assert "--as" in refused(["acceptance", str(DIALECTS / "vllm-v1.log"), "--as", "alpha"])
    assert "--as" in refused(["acceptance", str(DIALECTS / "sequoia.json"), "--as", "words"])
    assert "--as" in refused("acceptance --p 0.6 --as alpha")
    file = str(DIALECTS / "sequoia-bare.json")
    assert "--as child-prob" in refused(["acceptance", file])
    assert specplan(["acceptance", file, "--as", "child-prob", "--json"]).json["child_prob"] == [0.634, 0.108, 0.057]


# ---- contradictions


@pytest.mark.parametrize(
    "text",
    [
        f"{V1}Mean acceptance length: 2.65, Accepted: 165 tokens, Drafted: 300 tokens, Draft acceptance rate: 60.0%",
        "Speculative metrics: Draft acceptance rate: 0.655, System efficiency: 0.649, Number of speculative tokens: 4, "
        "Number of accepted tokens: 1000, Number of draft tokens: 2648, Number of emitted tokens: 2149.",
        "Speculative metrics: Draft acceptance rate: 0.655, System efficiency: 0.700, Number of speculative tokens: 4, "
        "Number of accepted tokens: 1735, Number of draft tokens: 2648, Number of emitted tokens: 2149.",
        "draft acceptance = 0.70000 (  167 accepted /   259 generated), mean acceptance length =  2.92",
        "draft acceptance = 0.64479 (  167 accepted /   259 generated), mean acceptance length =  2.92, "
        "acceptance rate per position = (0.905, 0.632, 0.483)",
        {"spec_decode_acceptance_length": 2.65, "spec_decode_num_drafts": 100, "spec_decode_draft_tokens": 300,
         "spec_decode_accepted_tokens": 165, "spec_decode_acceptance_rate": 65.0},
        {"num_spec_steps": 10, "num_accepted_draft_tokens": 9, "mean_acceptance_length": 2.9},
        {"num_spec_steps": 10, "num_accepted_draft_tokens": 9, "num_draft_tokens": 30, "draft_acceptance_rate": 0.9},
        {"completion_tokens": 265, "spec_verify_ct": 100, "spec_num_correct_drafts": 165, "spec_accept_length": 3.0},
        {"completion_tokens": 265, "spec_verify_ct": 100, "spec_num_correct_drafts": 165,
         "spec_num_proposed_drafts": 300, "spec_accept_rate": 0.7},
        {"specDecodingStats": {"numDraftTokens": 300, "numAcceptedTokens": 165, "numRequestsWithDraftTokens": 100,
                               "acceptanceLength": 2.2}},
        {"Acceptance_Length_Histogram": {"1": 20, "2": 28, "3": 19, "4": 33}, "Joint_Acceptance_Rate": {"2": 0.7}},
        {"num_speculative_tokens": 3, "mean_accept_length": 2.65, "marginal_accept_rates": [0.8, 0.52, 0.33],
         "accept_length_by_k": {"3": 2.4}},
        {"num_speculative_tokens": 3, "mean_accept_length": 2.65, "marginal_accept_rates": [0.9, 0.42, 0.33],
         "acceptance_length_histogram": {"1": 20, "2": 28, "3": 19, "4": 33}},
        {"average_tokens_per_forward": 3.1, "distribution": {"0": 20, "1": 28, "2": 19, "3": 33}},
        {"average_tokens_per_forward": 2.65, "distribution": {"0": 20, "1": 28, "2": 19, "3": 33},
         "total_draft_tokens": 300, "acceptance_rate": 0.7},
        {"acceptedDraftTokensCount": 10, "predictedTokensCount": 30, "rejectedDraftTokensCount": 5,
         "ignoredDraftTokensCount": 0, "totalDraftTokensCount": 40},
        {"kind": "chain", "survival": [0.8, 0.5], "k": 2, "tau": 2.9},
        {"kind": "chain", "survival": [0.8, 0.5], "acceptance_rate": 0.9,
         "counts": {"rounds": 100, "accepted": 130, "drafted": 200}},
        {"kind": "chain", "survival": [0.8, 0.5], "counts": {"accepted": 130, "drafted": 100}},
        'tgi_request_skipped_tokens_bucket{le="0"} 30\ntgi_request_skipped_tokens_bucket{le="1"} 20\n'
        'tgi_request_skipped_tokens_bucket{le="2"} 100\n'
        "tgi_request_skipped_tokens_sum 165\ntgi_request_skipped_tokens_count 100",
        f'{BASE}_drafts_total{{engine="0"}} 10\n{BASE}_drafts_total{{engine="1"}} 90\n'
        f'{BASE}_draft_tokens_total{{engine="0"}} 10\n{BASE}_draft_tokens_total{{engine="1"}} 190\n'
        f'{BASE}_accepted_tokens_total{{engine="0"}} 20\n{BASE}_accepted_tokens_total{{engine="1"}} 90',
    ],
)  # fmt: skip
def test_a_number_that_its_own_counts_contradict_is_refused_with_both(text):
    with pytest.raises(InputError) as error:
        read(text)
    assert error.value.message.startswith("case")
    assert error.value.hint


# ---- drafts that were shorter, and a guessed K


def test_shorter_drafts_are_warned_of_because_deep_positions_look_worse():
    rows = [f"{BASE}_drafts_total 100", f"{BASE}_draft_tokens_total 220", f"{BASE}_accepted_tokens_total 165"]
    rows += [
        f'{BASE}_accepted_tokens_per_pos_total{{position="{i}"}} {n}' for i, n in enumerate((80, 52, 33))
    ]  # fmt: skip
    found = read("\n".join(rows))
    assert "2.20 tokens a round" in found.about["warnings"][0]
    assert "deep positions look worse" in found.about["warnings"][0]
    full = read("\n".join(rows).replace("tokens_total 220", "tokens_total 300"))
    assert not full.about["warnings"]


def test_the_warning_is_printed_and_stands_in_the_document(specplan, tmp_path):
    file = str(DIALECTS / "llamacpp-old.log")
    ran = specplan(["acceptance", file, "--json"])
    assert "5 is a guess" in ran.json["warnings"][0]
    assert "warning: K is not in the source" in specplan(["acceptance", file]).err
    known = specplan(["acceptance", file, "--measured-k", "16", "--json"]).json
    assert (known["k"], known["warnings"]) == (16, [w for w in known["warnings"] if "shorter than 16" in w])


# ---- sources that were refused before


def test_early_v1_lines_without_a_mean_need_k_alone():
    line = f"INFO {V1}Draft acceptance rate: 38.8%, Accepted: {{}} tokens, Drafted: {{}} tokens"
    text = "\n".join(
        [line.format(150, 387), line.format(0, 0).replace("38.8%", "nan%"), line.format(60, 90).replace("38.8", "66.7")]
    )
    with pytest.raises(InputError, match="case:3: accepted and drafted tokens alone") as error:
        read(text)
    assert "--measured-k" in error.value.hint
    found = read(text, k=3)
    assert found.about["tau"] == pytest.approx(1 + 3 * 210 / 477)
    assert found.counts.rounds == pytest.approx(159)
    assert len(found.about["series"]) == 2


def test_early_v1_lines_with_a_mean_and_without_rates_are_read():
    found = read(f"{V1}Draft acceptance rate: 38.8%, Mean acceptance length: 2.16, Accepted: 150 tokens, Drafted: 387")
    assert found.about["tau"] == pytest.approx(2.16)


def test_buckets_of_tgi_give_the_rates_by_position():
    edges = {"0": 20, "1": 48, "2": 67, "3": 100, "+Inf": 100}
    rows = [f'tgi_request_skipped_tokens_bucket{{le="{edge}"}} {count}' for edge, count in edges.items()]
    rows += ["tgi_request_skipped_tokens_sum 165", "tgi_request_skipped_tokens_count 100"]
    found = read("\n".join(rows))
    assert found.survival == pytest.approx((0.8, 0.52, 0.33))
    assert found.about["histogram"] == [20, 28, 19, 33]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-06-01T00:00:00Z"}),
        lambda line: json.dumps({"MESSAGE": line, "_PID": "12", "PRIORITY": "6"}),
        lambda line: json.dumps({"level": "info", "message": line}),
        lambda line: f"vllm-1  | {line}",
        lambda line: f"[pod/vllm-0/server] {line}",
        lambda line: f"2026-06-01T00:00:00.123456789Z stderr F {line}",
        lambda line: f"Jun 01 00:00:00 host vllm[12]: {line}",
        lambda line: f"\x1b[32m{line[:40]}\x1b[0m{line[40:]}",
    ],
)
@pytest.mark.parametrize("name", ["vllm-v1.log", "sglang-newer.log", "llamacpp-new.log", "llamacpp-old.log"])
def test_a_log_that_a_collector_wrapped_says_the_same(wrap, name, tmp_path):
    lines = (DIALECTS / name).read_text().splitlines()
    file = tmp_path / "wrapped.log"
    file.write_text("\n".join(map(wrap, lines)) + "\n")
    found, plain = read_acceptance(str(file)), read_acceptance(str(DIALECTS / name))
    assert found.about["tau"] == plain.about["tau"]
    assert found.alpha == plain.alpha
    assert read(file.read_text()).alpha == plain.alpha


@pytest.mark.parametrize(
    "data",
    [
        [{"depth": 1, "rank": 0, "accepted": 60, "trials": 100}, {"depth": 1, "rank": 1, "accepted": 20, "trials": 100},
         {"depth": 2, "rank": 0, "accepted": 30, "trials": 60}],
        [[[60, 100], [20, 100]], [[30, 60]]],
        [{"path": [0], "accepted": 60, "trials": 100}, {"path": [1], "accepted": 20, "trials": 100},
         {"path": [0, 0], "accepted": 30, "trials": 60}],
    ],
)  # fmt: skip
def test_counts_as_a_list_are_the_table(data):
    found = read(data)
    assert found.siblings_known
    assert found.accepted(TokenTree.from_paths([(0,), (1,), (0, 0)])) == pytest.approx(1.1)


def test_a_list_of_counts_with_a_fault_names_the_entry():
    rows = [{"depth": 1, "rank": 0, "accepted": 60, "trials": 100}, {"depth": 1, "rank": 1, "trials": 100}]
    with pytest.raises(InputError, match="entry 2 lacks"):
        read(rows)
    with pytest.raises(InputError, match="case:1: 160 accepted of 100"):
        read([rows[0] | {"accepted": 160}])


def test_the_statistics_of_atom_are_counts():
    found = read(
        {"enabled": True, "total_draft_tokens": 1400000, "total_accepted_tokens": 553980, "acceptance_rate": 0.3957,
         "average_tokens_per_forward": 3.7699, "distribution": {"2": 46020, "3": 153980}}
    )  # fmt: skip
    assert (found.about["tau"], found.counts.rounds) == (pytest.approx(3.7699), 200000)
    page = 'atom:mtp_decode_steps_total{accepted_tokens="0"} 25\natom:mtp_decode_steps_total{accepted_tokens="1"} 75\n'
    assert read(page + "atom:mtp_average_tokens_per_forward 1.75").survival == (0.75,)


def test_the_run_of_aiperf_comes_before_its_requests_and_lmdeploy_may_lack_its_drafts():
    run = {"pooled_spec_decode_acceptance_histogram": {"0": 20, "1": 28, "2": 19, "3": 33},
           "total_draft_tokens": {"unit": "tokens", "avg": 300.0}}  # fmt: skip
    found = read(run)
    assert (found.about["tau"], found.about["drafted_per_round"]) == (pytest.approx(2.65), 3.0)
    info = {"spec_info": {"num_draft_tokens": 300, "num_accepted_tokens": 165}}
    with pytest.raises(InputError, match="how many drafts"):
        read(info)
    assert read(info, k=3).about["tau"] == pytest.approx(2.65)
    info["spec_info"]["avg_accepted_per_step"] = 1.65
    assert read(info).about["tau"] == pytest.approx(2.65)


# ---- by context


def vllm_request(prompt, rounds, accepted):
    numbers = {"num_spec_steps": rounds, "num_accepted_draft_tokens": accepted, "num_draft_tokens": 3 * rounds}
    return {"usage": {"prompt_tokens": prompt}, "metrics": {"speculative_decoding": numbers | {"num_spec_tokens": 3}}}


def aiperf_request(prompt, rounds, accepted):
    record = vllm_request(prompt, rounds, accepted)["metrics"]["speculative_decoding"]
    metrics = {"input_sequence_length": {"value": prompt, "unit": "tokens"}}
    return {"metrics": metrics, "spec_decode_acceptance": record}


def sglang_request(prompt, rounds, accepted):
    counts = {"spec_verify_ct": rounds, "completion_tokens": rounds + accepted, "prompt_tokens": prompt}
    return {"meta_info": counts}


def llama_request(prompt, rounds, accepted):
    counts = {"prompt_n": prompt - 10, "cache_n": 10, "predicted_n": rounds + accepted}
    return {"timings": counts | {"draft_n": 3 * rounds, "draft_n_accepted": accepted}}


@pytest.mark.parametrize("request_of", [vllm_request, aiperf_request, sglang_request, llama_request])
def test_responses_give_the_tokens_per_round_by_prompt_length(request_of, specplan, tmp_path):
    requests = [request_of(100, 10, 20), request_of(120, 10, 10), request_of(5000, 40, 20)]
    found = read("\n".join(map(json.dumps, requests)))
    assert found.about["by_context"] == [
        {"prompt_tokens_to": 128, "rounds": 20, "tau": 2.5},
        {"prompt_tokens_to": 8192, "rounds": 40, "tau": 1.5},
    ]
    file = tmp_path / "requests.jsonl"
    file.write_text("\n".join(map(json.dumps, requests)))
    assert "prompt tokens up to" in specplan(["acceptance", str(file)]).out


# ---- several files


def test_files_without_weights_are_pooled_by_their_counted_rounds(specplan, tmp_path):
    small, large = tmp_path / "a.json", tmp_path / "b.json"
    small.write_text("[20, 28, 19, 33]")
    large.write_text(json.dumps({"acceptance_histogram": [300, 0, 0, 0]}))
    ran = specplan(["tree", "--acceptance", str(small), "--acceptance", str(large), "--k", "3", "--json"]).json
    assert ran["tau"] == pytest.approx(1 + 165 / 400)
    both = specplan(["acceptance", str(small), str(large), "--json"]).json
    assert both["weights"] == pytest.approx([0.25, 0.75])
    assert any("counted rounds: 100, 300" in note for note in both["notes"])


def test_a_file_without_counts_makes_all_weigh_the_same_with_a_warning(specplan):
    files = [str(DIALECTS / name) for name in ("vllm-v1.log", "sglang-newer.log")]
    ran = specplan(["acceptance", *files, "--json"]).json
    assert ran["weights"] == [0.5, 0.5]
    assert "sglang-newer.log has no count of rounds" in ran["warnings"][0]


def test_weights_are_given_to_all_files_or_to_none(refused):
    files = [str(DIALECTS / name) for name in ("vllm-v1.log", "llamacpp-new.log")]
    assert "has no weight" in refused(["acceptance", f"{files[0]}=0.3", files[1]])


def test_a_mix_takes_siblings_as_independent_where_asked(specplan):
    files = [f"{DIALECTS / name}=0.5" for name in ("vllm-v1.log", "llamacpp-new.log")]
    ran = specplan(["tree", "--acceptance", files[0], "--acceptance", files[1], "--budget", "8", "--assume-ranks"])
    assert ran.code == 0


# ---- deeper than was measured


@pytest.mark.parametrize("verb", ["tree", "plan", "advise"])
def test_a_chain_deeper_than_measured_goes_on_by_the_fitted_model(specplan, verb):
    device = "" if verb == "tree" else "--gpu h100 --model llama-3-8b --draft llama-3.2-1b"
    file = str(DIALECTS / "vllm-v1.prom")
    ran = specplan([verb, *device.split(), "--acceptance", file, "--k", "5", "--json"])
    found = ran.json["given"] if verb == "plan" else ran.json
    assert 2.65 < found["tau"] < 2.65 + 2 * 0.33
    said = json.dumps(ran.json["assumptions"])
    assert verb == "plan" or "positions 4 to 5 were not measured" in said


# ---- what is said about a file and has no part in it


@pytest.mark.parametrize(
    ("file", "option"),
    [
        ("vllm-v1.log", "--denominator drafted"),
        ("vllm-v1.log", "--measured-topk 4"),
        ("counts.csv", "--measured-k 4"),
        ("histogram.json", "--measured-topk 2"),
    ],
)
def test_what_the_file_says_itself_is_not_ignored_in_silence(specplan, file, option):
    ran = specplan(["acceptance", str(DIALECTS / file), *option.split(), "--json"]).json
    assert any(f"{option} has no part in it" in warning for warning in ran["warnings"])


def test_what_the_file_lacks_is_taken_without_a_warning(specplan, tmp_path):
    file = tmp_path / "share.txt"
    file.write_text("64.0% accepted draft tokens\n")
    ran = specplan(["acceptance", str(file), "--denominator", "drafted", "--measured-k", "3", "--json"]).json
    assert (ran["tau"], ran["warnings"]) == (pytest.approx(2.92), [])


def test_acceptance_takes_no_limits_of_a_tree_and_k_only_where_it_means_something(refused):
    file = str(DIALECTS / "vllm-v1.log")
    assert "--k goes with --accept-length" in refused(["acceptance", file, "--k", "2"])
    assert "No such option" in refused(["acceptance", file, "--budget", "3"])
