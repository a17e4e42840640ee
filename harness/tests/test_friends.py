"""`encke-lab friends generate`, held against another program's idea of the same graph."""

import bisect
import collections
import json
import random
import xml.etree.ElementTree

import igraph
import pytest

from support.program import begin, encke
from support.wait import PATIENCE

USERS, DEGREE = 20_000, 5

# The distance between two graphs of the same model and other seeds is up to 0.009; one that differs
# by a single edge's worth of attraction is at 0.02, one without preference at 0.16.
DISTANCE_MAX = 0.015


def generate(*arguments):
    said = encke("friends", "generate", *arguments)
    assert said.returncode == 0, said.stderr
    return said


def degrees(text):
    return list(collections.Counter(text.split()).values())


def distance(left, right):
    """Kolmogorov and Smirnov's: how far the cumulative distributions are apart."""
    left, right = sorted(left), sorted(right)

    def share(values, most):
        return bisect.bisect_right(values, most) / len(values)

    return max(abs(share(left, most) - share(right, most)) for most in {*left, *right})


@pytest.fixture(scope="module")
def ours():
    return degrees(generate("--users", USERS, "--degree", DEGREE, "--seed", 1).stdout)


def test_degrees_are_those_of_igraph(ours):
    random.seed(1)
    igraph.set_random_number_generator(random)
    graph = igraph.Graph.Barabasi(USERS, DEGREE, zero_appeal=0, implementation="psumtree")
    assert graph.is_simple() and graph.ecount() == sum(ours) // 2
    found = distance(ours, graph.degree())
    assert found < DISTANCE_MAX, found


def test_degrees_are_not_those_of_friends_without_preference(ours):
    """The check above would notice."""
    random.seed(1)
    others = [0] * USERS
    for user in range(USERS):
        for friend in random.sample(range(user), min(user, DEGREE)):
            others[user] += 1
            others[friend] += 1
    assert distance(ours, others) > 10 * DISTANCE_MAX


def splitmix64(seed):
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        mixed = state
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
        yield mixed ^ (mixed >> 31)


def test_a_seed_is_one_graph_in_any_language():
    """The method as it is documented, over a list of all ends."""
    users, degree, seed = 500, 4, 2**63 + 11
    random_bits = splitmix64(seed)
    ends, lines = [], []
    for user in range(1, users + 1):
        if user <= degree + 1:
            friends = list(range(1, user))
        else:
            friends = []
            while len(friends) < degree:
                friend = ends[next(random_bits) * len(ends) >> 64]
                if friend not in friends:
                    friends.append(friend)
        for friend in friends:
            ends += [user, friend]
            lines.append(f"{user} {friend}\n")
    said = generate("--users", users, "--degree", degree, "--seed", seed)
    assert said.stdout == "".join(lines)


def test_the_report_counts_what_was_written(tmp_path):
    path = tmp_path / "friends.txt"
    said = generate("--users", 3000, "--degree", 15, "-o", path, "--json")
    report, text = json.loads(said.stdout), path.read_text()
    assert (report["users"], report["made"], report["degree"], report["seed"]) == (3000, 3000, 15, 1)
    assert report["edges"] == text.count("\n") == 3000 * 15 - 15 * 16 // 2
    assert report["bytes"] == len(text)
    found, have = report["degrees"], sorted(degrees(text))
    assert (found["min"], found["max"]) == (have[0], have[-1])
    assert (found["median"], found["p99"]) == (have[1499], have[2969])
    assert found["mean"] == pytest.approx(sum(have) / 3000)
    for each in found["histogram"]:
        assert each["users"] == sum(each["from"] <= degree <= each["to"] for degree in have)
    law = found["power_law"]
    assert law["from"] == 60 and law["users"] == sum(degree >= 60 for degree in have)
    assert abs(law["exponent"] - 3) < 4 * law["error"] + 0.03


def test_the_report_does_not_mix_with_the_list():
    plain = generate("--users", 100, "--degree", 2)
    assert "197 friendships" in plain.stderr and plain.stdout.count("\n") == 197
    machine = generate("--users", 100, "--degree", 2, "--json")
    assert machine.stdout == plain.stdout
    assert json.loads(machine.stderr)["edges"] == 197


def test_the_degrees_are_drawn(tmp_path):
    path = tmp_path / "degrees.svg"
    generate("--users", 5000, "--degree", 5, "--plot", path)
    picture = xml.etree.ElementTree.parse(path).getroot()
    assert picture.tag.endswith("svg")
    words = [text.strip() for text in picture.itertext()]
    assert "5,000 users, 24,985 friendships" in words and "friends" in words
    assert sum(each.tag.endswith("circle") for each in picture.iter()) > 30
    ended = encke("friends", "generate", "--users", 100, "--plot", tmp_path / "none" / "x.svg")
    assert ended.returncode == 1 and "cannot be written" in ended.stderr


def test_a_reader_that_leaves_is_no_failure():
    process = begin("friends", "generate", "--users", 200_000, text=False)
    assert process.stdout.readline() == b"2 1\n"
    process.stdout.close()
    assert process.wait(timeout=PATIENCE) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--degree", "0"], "--degree 15"),
        (["--users", "15"], "at least 16 users"),
        (["--users", "4294967295"], "at most 2147483647"),
        (["--users", "many"], "--users"),
    ],
)
def test_misuse_is_said(arguments, said):
    ended = encke("friends", "generate", *arguments)
    assert ended.returncode == 2 and said in ended.stderr
    assert ended.stdout == ""


def test_a_file_that_cannot_be_written_is_said(tmp_path):
    ended = encke("friends", "generate", "--users", 100, "-o", tmp_path / "none" / "friends.txt")
    assert ended.returncode == 1 and "cannot be written" in ended.stderr


def test_igraph_and_friends_read_each_others_lists(tmp_path):
    """As docs/LAB.md says: igraph counts from 0 and writes an undirected edge once."""
    path = tmp_path / "friends.txt"
    generate("--users", 300, "--degree", 3, "-o", path)
    graph = igraph.Graph.Read_Edgelist(str(path), directed=False)
    assert graph.vcount() == 301 and graph.degree(0) == 0
    assert graph.ecount() == path.read_text().count("\n")
    theirs = tmp_path / "theirs.txt"
    graph.write_edgelist(str(theirs))
    pairs = [tuple(map(int, line.split())) for line in theirs.read_text().splitlines()]
    ours = [tuple(map(int, line.split())) for line in path.read_text().splitlines()]
    assert {frozenset(pair) for pair in pairs} == {frozenset(pair) for pair in ours}
    assert len(pairs) == len(ours)
    directed = igraph.Graph(edges=[(2, 0), (1, 2)], directed=True)
    directed.write_edgelist(str(theirs))
    assert sorted(theirs.read_text().splitlines()) == ["1 2", "2 0"]


def test_a_neighbourhood_is_drawn_as_igraph_has_it(tmp_path):
    path, picture = tmp_path / "friends.txt", tmp_path / "user.svg"
    generate("--users", 400, "--degree", 3, "-o", path, "--plot", picture, "--around", 350)
    graph = igraph.Graph.Read_Edgelist(str(path), directed=False)
    friends = set(graph.neighbors(350))
    others = {other for friend in friends for other in graph.neighbors(friend)} - friends - {350}
    root = xml.etree.ElementTree.fromstring(picture.read_text())
    text = " ".join(root.itertext())
    assert f"User 350: {len(friends)} friends" in text
    assert f"of their {len(others)} other friends" in text
    for friend in friends:
        assert str(friend) in text.split(), (friend, text)
    circles = root.iter("{http://www.w3.org/2000/svg}circle")
    assert sum(1 for _ in circles) == 1 + len(friends) + min(len(others), 160)
    assert encke("friends", "generate", "--users", 10, "--degree", 2, "--around", 3).returncode == 2
    beyond = ("--users", 10, "--degree", 2, "--plot", picture, "--around", 11)
    assert encke("friends", "generate", *beyond).returncode == 2
