"""A metrics page of a server on this machine, read once and twice."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

BASE = "vllm:spec_decode_num"


def page(rounds, first, second):
    return (
        f"{BASE}_drafts_total {rounds}\n{BASE}_draft_tokens_total {2 * rounds}\n"
        f"{BASE}_accepted_tokens_total {first + second}\n"
        f'{BASE}_accepted_tokens_per_pos_total{{position="0"}} {first}\n'
        f'{BASE}_accepted_tokens_per_pos_total{{position="1"}} {second}\n'
    )


@pytest.fixture
def serve():
    """Serve these pages in turn, the last one from then on; gives the address."""
    servers = []

    def start(*pages):
        left = list(pages)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                text = left.pop(0) if len(left) > 1 else left[0]
                self.send_response(200)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *arguments):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_address[1]}/metrics"

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_server_is_read_since_its_start(specplan, serve):
    ran = specplan(["acceptance", "--url", serve(page(100, 80, 60)), "--json"])
    assert ran.json["tau"] == pytest.approx(2.4)


def test_two_reads_give_the_difference(specplan, serve):
    url = serve(page(100, 80, 60), page(300, 180, 100))
    ran = specplan(["acceptance", "--url", url, "--for", "10ms", "--json"]).json
    assert ran["counts"]["rounds"] == 200
    assert ran["survival"] == pytest.approx([0.5, 0.2])
    assert ran["tau"] == pytest.approx(1.7)
    assert ran["drafted_per_round"] == 2


def test_counters_that_go_backwards_are_refused(refused, serve):
    assert "went back" in refused(["acceptance", "--url", serve(page(100, 80, 60), page(10, 8, 6)), "--for", "10ms"])


def test_a_quiet_server_is_refused(refused, serve):
    assert "nothing was drafted" in refused(["acceptance", "--url", serve(page(100, 80, 60)), "--for", "10ms"])


def test_a_gauge_cannot_be_subtracted(refused, serve):
    url = serve("sglang:spec_accept_length 2.65\n")
    assert "no counters" in refused(["acceptance", "--url", url, "--for", "10ms"])


def test_a_server_that_is_not_there_is_an_environment_problem(refused):
    refused(["acceptance", "--url", "http://127.0.0.1:9/metrics"], code=4)


def test_only_http_is_read(refused, tmp_path):
    assert "http" in refused(["acceptance", "--url", f"file://{tmp_path}/x"])


def test_a_time_without_an_address_is_refused(refused):
    assert "--for goes with --url" in refused("acceptance --p 0.6 --for 60s")


def test_an_address_and_a_file_are_not_mixed(refused, serve):
    refused(["acceptance", "tests/data/dialects/vllm-v1.prom", "--url", serve(page(1, 1, 1))])
