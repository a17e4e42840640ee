"""`encke graph` and `encke-lab friends load`, and what changes all edges of an id at once."""

import json
import os

import pytest

from support.program import ENVIRONMENT, encke

LIST = "# who follows whom\n1 rj\n2 rj\n\nrj news\n10 9\n9 10\n"
SORTED = "1 rj\n2 rj\n9 10\n10 9\nrj news\n"


@pytest.fixture
def data(tmp_path):
    """A data directory that a list was loaded into."""
    list_file = tmp_path / "list.txt"
    list_file.write_text(LIST)
    said = encke("friends", "load", list_file, "--data", tmp_path / "data")
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("subscriptions: 5 new")
    return tmp_path / "data"


def export(data, *flags):
    said = encke("graph", "export", "--data", data, *flags)
    assert said.returncode == 0, said.stderr
    return said.stdout


def test_what_is_loaded_is_exported_sorted(data):
    assert export(data) == SORTED
    lines = [json.loads(line) for line in export(data, "--json").splitlines()]
    assert lines[0] == {"subscriber": 1, "subject": "rj"}
    assert lines[-1] == {"subscriber": "rj", "subject": "news"}


def test_a_friendship_is_two_subscriptions(tmp_path):
    said = encke(
        "friends", "load", "-", "--mutual", "--data", tmp_path / "d", "--json", input="1 2\n2 1\n2 3\n"
    )
    report = json.loads(said.stdout)
    assert (report["added"], report["skipped"]) == (4, 0)
    assert export(tmp_path / "d") == "1 2\n2 1\n2 3\n3 2\n"


def test_a_bad_line_loads_nothing_unless_it_is_skipped(data):
    bad = "3 rj\n4 rj extra\n5 rj\n"
    said = encke("friends", "load", "-", "--data", data, input=bad)
    assert said.returncode == 1 and "line 2" in said.stderr and "--skip-bad" in said.stderr
    assert export(data) == SORTED
    said = encke("friends", "load", "-", "--data", data, "--skip-bad", input=bad)
    assert said.returncode == 0 and "line 2" in said.stderr
    assert "subscriptions: 2 new" in said.stdout
    assert "3 rj\n5 rj\n" in export(data)


def test_a_list_that_is_not_there_leaves_no_directory(tmp_path):
    said = encke("friends", "load", tmp_path / "none.txt", "--data", tmp_path / "data")
    assert said.returncode == 1 and "none.txt" in said.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("verb", ["check", "stats", "export", "compact"])
def test_a_directory_that_is_not_there_is_not_made(tmp_path, verb):
    said = encke("graph", verb, "--data", tmp_path / "none")
    assert said.returncode == 1 and "--data" in said.stderr
    assert not (tmp_path / "none").exists()


def test_statistics_and_check_say_what_is_there(data):
    stats = json.loads(encke("graph", "stats", "--data", data, "--json").stdout)
    assert (stats["edges"], stats["ids"], stats["names"]) == (5, 6, 2)
    assert stats["most_subscribers"] == {"id": "rj", "count": 2}
    assert stats["file_bytes"] == os.path.getsize(data / "graph.redb")
    check = json.loads(encke("graph", "check", "--data", data, "--json").stdout)
    assert check["sound"] and check["edges"] == 5
    assert "5 edges are equal" in encke("graph", "check", "--data", data).stdout


def test_a_damaged_file_is_refused_and_left(data):
    file = data / "graph.redb"
    whole = file.read_bytes()
    middle = len(whole) // 2
    for damaged in (whole[:middle], whole[:4096] + bytes(4096) + whole[8192:]):
        file.write_bytes(damaged)
        said = encke("graph", "check", "--data", data)
        assert said.returncode == 1 and "graph.redb" in said.stderr, said
        assert "panicked" not in said.stderr
        assert file.read_bytes() == damaged


def test_compacting_and_copying_keep_the_graph(data, tmp_path):
    assert encke("graph", "compact", "--data", data).returncode == 0
    assert export(data) == SORTED
    copy = tmp_path / "copy.redb"
    assert encke("graph", "backup", copy, "--data", data).returncode == 0
    again = encke("graph", "backup", copy, "--data", data)
    assert again.returncode == 1 and "copy.redb" in again.stderr
    assert not list(tmp_path.glob("copy.redb.*"))
    other = tmp_path / "other"
    other.mkdir()
    copy.rename(other / "graph.redb")
    assert export(other) == SORTED


def test_a_server_is_copied_and_loaded_while_it_runs(start, tmp_path):
    data = tmp_path / "data"
    server = start("--data", data)
    at = ("--online", "--control", server.control_url)
    said = encke("friends", "load", "-", *at, input=LIST)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("subscriptions: 5 new, 0 unchanged")
    said = encke("friends", "load", "-", "--mutual", *at, input="1 rj\n7 x y\n8 rj\n")
    assert said.returncode == 1
    assert "line 2" in said.stderr and "subscriptions: 1 new, 1 unchanged" in said.stderr
    for refused in (
        encke("friends", "load", "-", "--data", data, input=LIST),
        encke("graph", "backup", tmp_path / "x", "--data", data),
    ):
        assert refused.returncode == 1 and "--online" in refused.stderr
    copy = tmp_path / "copy"
    copy.mkdir()
    said = encke("graph", "backup", copy / "graph.redb", *at)
    assert said.returncode == 0, said.stderr
    assert sorted(path.name for path in data.iterdir()) == ["graph.redb", "lock"]
    server.subscribe("late", "rj")
    server.stop()
    assert export(copy) == "1 rj\n2 rj\n9 10\n10 9\nrj 1\nrj news\n"
    assert "late rj" in export(data)


def test_a_server_without_a_directory_has_no_copy(server, tmp_path):
    said = encke("graph", "backup", tmp_path / "x", "--online", "--control", server.control_url)
    assert said.returncode == 1 and "--memory" in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_all_edges_of_an_id_change_at_once(server, name):
    me, rj = name(), name()
    path = f"/v1/subscriptions/{me}"
    answer = server.api.put(path, json=[rj, 7, "a b"])
    assert answer.json() == {"added": 3, "removed": 0, "unchanged": 0}
    answer = server.api.put(path, content=f"{rj}\n8\n", headers={"Content-Type": "text/plain"})
    assert answer.json() == {"added": 1, "removed": 2, "unchanged": 1}
    assert server.publish(rj, "x")["subscribers"] == 2
    assert server.api.get(path).json()["total"] == 2
    assert server.api.delete(f"/v1/ids/{rj}").json() == {"removed": 1}
    assert server.api.delete(path).json() == {"removed": 1}
    assert server.publish(rj, "x")["subscribers"] == 1


def test_a_data_directory_of_the_environment_counts(data):
    environment = {**ENVIRONMENT, "ENCKE_DATA": str(data)}
    assert encke("graph", "export", env=environment).stdout == SORTED
