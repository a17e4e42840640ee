"""The graph in its data directory: kept, refused, and a disk that is full."""

import os

from support.program import ENVIRONMENT, encke
from support.wait import until

FREE = ("--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")


def subscribers(server, subject):
    return server.api.get(f"/v1/subscribers/{subject}").json()["subscribers"]


def test_what_was_answered_survives_a_kill(start, tmp_path):
    data = tmp_path / "data"
    kept = []
    for round in range(4):
        server = start("--data", data)
        assert sorted(map(str, subscribers(server, "rj"))) == sorted(map(str, kept))
        for name in (f"user-{round}", round, f"0{round}"):
            answer = server.api.put(f"/v1/subscriptions/{name}/rj")
            assert answer.json() == {"added": 1, "unchanged": 0}
            kept.append(name)
        gone = kept.pop(0)
        assert server.api.delete(f"/v1/subscriptions/{gone}/rj").json()["removed"] == 1
        server.kill()


def test_a_directory_has_one_server(start, tmp_path):
    data = tmp_path / "data"
    server = start("--data", data)
    said = encke("serve", *FREE, "--data", data)
    assert said.returncode == 1
    assert f"process id {server.pid}" in said.stderr and str(data) in said.stderr


def test_a_file_that_is_not_ours_is_refused_and_left(tmp_path):
    file = tmp_path / "graph.redb"
    file.write_bytes(b"something else entirely")
    said = encke("serve", *FREE, "--data", tmp_path)
    assert said.returncode == 1 and str(file) in said.stderr
    assert "not an Encke graph" in said.stderr
    assert file.read_bytes() == b"something else entirely"


def test_without_a_word_it_is_kept_where_the_server_is_started(tmp_path):
    environment = {name: v for name, v in ENVIRONMENT.items() if name != "ENCKE_MEMORY"}
    said = encke("serve", "--print-config", env=environment, cwd=tmp_path)
    assert "./encke-data" in said.stdout
    assert not (tmp_path / "encke-data").exists()


def test_a_full_disk_refuses_changes_until_there_is_room(start, small_disk):
    data = small_disk / "data"
    server = start("--data", data)
    server.api.put("/v1/subscriptions/1/rj").raise_for_status()
    filler = small_disk / "filler"
    with open(filler, "wb") as file:
        try:
            while True:
                os.write(file.fileno(), b"x" * 4096)
        except OSError:
            pass

    def change(n):
        return server.api.put(f"/v1/subscriptions/{n}/rj")

    kept = {1}
    number, refused = 2, None
    while refused is None and number < 5000:
        answer = change(number)
        if answer.is_success:
            kept.add(number)
        else:
            refused = answer
        number += 1
    assert refused is not None and refused.status_code == 507, refused
    assert "No space left" in refused.json()["detail"]
    # Bulk says how far it came; reading and publishing go on.
    bulk = server.api.post("/v1/subscriptions", content=b"7001 rj\n7002 rj\n")
    assert bulk.status_code == 507 and "0 changed" in bulk.json()["detail"]
    assert set(subscribers(server, "rj")) == kept
    assert server.publish("rj", "hello")["subscribers"] == len(kept) + 1
    filler.unlink()
    until(lambda: change(9000).is_success, "there is room again")
    kept.add(9000)
    server.kill()
    server = start("--data", data)
    assert set(subscribers(server, "rj")) == kept


# After a failed sync the kernel takes the pages for clean: they can be read, and are never written. ext4 does not even write
# what is written to them later.
def test_what_is_answered_after_syncs_have_failed_is_on_the_disk(start, failing_disk):
    data = failing_disk.path / "data"
    server = start("--data", data)
    # Each needs new blocks of the disk soon.
    subjects = "".join(f"{'x' * 40}-{{0}}-{n}\n" for n in range(500))
    kept, refused = [], []

    def change():
        number = len(kept) + len(refused)
        answer = server.api.put(f"/v1/subscriptions/{number}", content=subjects.format(number))
        (kept if answer.is_success else refused).append(number)
        assert answer.status_code in (200, 500, 507), answer.text
        return answer.is_success

    def check():
        for numbers, expected in ((kept, 500), (refused, 0)):
            for number in numbers:
                assert server.api.get(f"/v1/subscriptions/{number}").json()["total"] == expected, number

    assert change()
    for kills in (False, True, False):
        failing_disk.fail()
        until(lambda: not change(), "changes are refused", pause=0)
        assert [change(), change()] == [False, False]
        check()
        if kills:
            # The next process cannot know what the kernel has not written.
            server.kill()
            failing_disk.heal()
            server = start("--data", data)
        else:
            failing_disk.heal()
        until(change, "changes are taken again", patience=5)
        assert change()
    check()
    server.kill()
    failing_disk.read_again()
    server = start("--data", data)
    check()
