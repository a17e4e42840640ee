"""The Erlang examples of docs/ERLANG.md, as they stand there, in a real BEAM."""

import json
import re

from support.erlang import Cluster
from support.http import Sse
from support.program import ROOT
from support.wait import PATIENCE, until

BLOCKS = re.findall(r"^```erlang\n(.*?)^```$", (ROOT / "docs" / "ERLANG.md").read_text(), re.DOTALL | re.MULTILINE)

# Evaluates texts as a shell does, with the variables of those before, and prints each value as a shell does.
EVALUATE = """
    Evaluate = fun(Text, Variables) ->
        {ok, Tokens, _} = erl_scan:string(Text),
        {ok, Expressions} = erl_parse:parse_exprs(Tokens),
        {value, Value, More} = erl_eval:exprs(Expressions, Variables),
        io:format("~tp~n", [Value]),
        More
    end,
    lists:foldl(Evaluate, %s, [%s])"""


def evaluate(*texts, variables="[]"):
    # A text in JSON is one in Erlang, as long as it is in ASCII.
    return EVALUATE % (variables, ", ".join(json.dumps(text) for text in texts))


def test_the_session_goes_as_it_stands_there(start):
    (session,) = (block for block in BLOCKS if block.startswith("1> "))
    steps = re.findall(r"^(\d+)> (.*?\.)\n(.*?)(?=^\d+> |\Z)", session, re.DOTALL | re.MULTILINE)
    assert [int(number) for number, _, _ in steps] == list(range(1, 16))
    one = Cluster(start)
    try:
        said = one.run(evaluate(*(text for _, text, _ in steps)))
        assert said == [answer.strip() for _, _, answer in steps]
    finally:
        one.stop()


def test_the_notices_come_as_it_stands_there(start):
    (notices,) = (block for block in BLOCKS if "presence_snapshot" in block)
    one = Cluster(start, "--presence", "--presence-delay", "200ms")
    try:
        beam = one.beam(evaluate(notices, variables="[{'N', N}]"))
        until(lambda: one.server.sessions("alice"), "the process is logged in")

        def has_ended():
            # If rj is there before the snapshot, the snapshot says so: then it must go and come.
            with Sse(one.server, "rj"):
                until(lambda: one.server.sessions("rj"), "rj is there")
                return beam.poll() is not None

        until(has_ended, "the process is told", pause=1)
        output, _ = beam.communicate(timeout=PATIENCE)
        assert (beam.returncode, output.strip()) == (0, '"rj is here"'), output
    finally:
        one.stop()


def test_no_example_is_left_out():
    kinds = [re.match(r"1> |ok = gen_server|handle_call\(", block) for block in BLOCKS]
    # The callback is that of the gatekeeper of test_erlang_logins.
    assert len(BLOCKS) == 3 and all(kinds)
