"""Publishers that send a whole batch before they read a receipt, as most HTTP libraries do."""

import http.client
import json

# Receipts of 70 MB: much more than the 16 MiB that the server keeps unread and all socket buffers hold.
LINES = 800_000
LINE = json.dumps({"subject": 1, "data": "x" * 80}).encode() + b"\n"


def post(server, query=""):
    """Sends a batch with Python's `http.client`, which reads nothing while it sends."""
    connection = http.client.HTTPConnection(*server.control, timeout=100)
    connection.request("POST", f"/v1/publish{query}", LINE * LINES, {"Content-Type": "application/x-ndjson"})
    answer = connection.getresponse()
    assert answer.status == 200
    lines = [json.loads(line) for line in answer.read().splitlines()]
    connection.close()
    return lines


def test_a_batch_whose_receipts_are_not_read_ends_and_says_what_to_use(start):
    server = start()
    *receipts, error = post(server)
    assert 0 < len(receipts) < LINES - 1
    assert error["line"] == len(receipts) + 1
    assert "receipts=summary" in error["error"]
    # What has a receipt was published, and nothing else.
    assert server.api.get("/v1/cursor").json()["cursor"] == receipts[-1]["id"]
    numbers = [int(receipt["id"].split("-")[1]) for receipt in receipts]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_a_batch_with_a_summary_need_not_be_read_before_all_is_sent(start):
    [summary] = post(start(), "?receipts=summary")
    assert (summary["events"], summary["failed"]) == (LINES, 0)
