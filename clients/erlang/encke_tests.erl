%% Tests of the client against a running Encke: its node is named by the environment variable ENCKE_NODE, and
%% the node that runs them knows its cookie. EUnit runs what ends in `_test'.
-module(encke_tests).
-compile([export_all, nowarn_export_all]).

-record(subscription, {subscriber, subscribee}).

encke() ->
    list_to_atom(os:getenv("ENCKE_NODE")).

ping_test() ->
    pong = net_adm:ping(encke()).

subscriptions_come_back_as_they_were_put_in_test() ->
    Ids = [alice_of_test, <<"bob of test">>, "carol of test", 4711, -5, {user, 123}, [a, {b, 2.5}]],
    Subject = {subject, ?FUNCTION_NAME},
    ok = encke:add_subscriptions(encke(), [{Id, Subject} || Id <- Ids]),
    Sorted = lists:sort(Ids),
    Sorted = lists:sort(encke:get_subscribers(encke(), Subject)),
    Records = [#subscription{subscriber = Id, subscribee = Subject} || Id <- Ids],
    ok = encke:remove_subscriptions(encke(), Records),
    [] = encke:get_subscribers(encke(), Subject).

a_message_passes_unchanged_test() ->
    Id = {id, make_ref()},
    {ok, 0} = encke:send(encke(), "nobody of test", hello),
    ok = encke:login(encke(), "somebody of test"),
    Msg = {song, "Sky", [1.5, <<"binary">> | improper], #{self() => Id}},
    {ok, 1} = encke:send(encke(), <<"somebody of test">>, Msg),
    Msg = receive {router_msg, Got} -> Got after 5000 -> nothing end,
    ok = encke:cast(encke(), 'somebody of test', again),
    again = receive {router_msg, Again} -> Again after 5000 -> nothing end,
    ok = encke:post(encke(), "somebody of test", ["io", <<"list">>]),
    <<"iolist">> = receive {router_msg, Body} -> Body after 5000 -> nothing end,
    ok = encke:logout(encke()),
    {ok, 0} = encke:send(encke(), "somebody of test", hello).

a_process_that_exits_is_logged_out_test() ->
    Pid = spawn(fun() -> receive stop -> ok end end),
    ok = encke:login(encke(), "mortal of test", Pid),
    ok = encke:login(encke(), "mortal of test too", Pid),
    {ok, 1} = encke:send(encke(), "mortal of test too", hello),
    exit(Pid, kill),
    {ok, 0} = until({ok, 0}, fun() -> encke:send(encke(), "mortal of test too", hello) end).

a_linked_process_is_ended_with_its_session_only_test() ->
    Pid = spawn(fun() -> receive stop -> ok end end),
    ok = encke:login(encke(), "linked of test", Pid, [link]),
    ok = encke:login(encke(), "linked of test too", Pid),
    {ok, 1} = encke:send(encke(), "linked of test too", hello),
    ok = encke:logout(encke(), Pid),
    {ok, 0} = encke:send(encke(), "linked of test", hello),
    true = is_process_alive(Pid),
    {error, _} = encke:login(encke(), "linked of test", Pid, [unknown]),
    exit(Pid, kill).

refusals_are_sentences_test() ->
    {error, Sentence} = encke:login(encke(), <<>>, self()),
    true = is_binary(Sentence),
    {error, _} = encke:add_subscriptions(encke(), [{a, b} | c]),
    {error, _} = encke:add_subscriptions(encke(), [{a, b, c}]),
    {error, _} = encke:send(encke(), a, binary:copy(<<"x">>, 1 bsl 20)).

global_names_test() ->
    {ok, _} = encke:start_link(encke()),
    Router = until_pid(router),
    {ok, 0} = gen_server:call(Router, {send, "nobody of test", hello}),
    [] = gen_server:call(until_pid(subsmanager), {get_subscribers, "nobody of test"}),
    ok = encke:stop(),
    undefined = global:whereis_name(router).

a_node_of_a_list_stands_for_the_one_that_answers_test() ->
    Absent = 'nobody@127.0.0.1',
    undefined = encke:current(),
    {ok, _} = encke:start_link([Absent, encke()]),
    Encke = encke(),
    Encke = until(Encke, fun encke:current/0),
    Encke = node(until_pid(router)),
    ok = encke:login(Absent, "somebody of a list"),
    {ok, 1} = encke:send(Absent, "somebody of a list", hello),
    ok = encke:post(Absent, "somebody of a list", "again"),
    [hello, <<"again">>] = [receive {router_msg, Got} -> Got after 5000 -> nothing end || _ <- [1, 2]],
    ok = encke:add_subscriptions(Absent, [{somebody, "subject of a list"}]),
    [somebody] = encke:get_subscribers(Encke, "subject of a list"),
    ok = encke:remove_subscriptions(Absent, [{somebody, "subject of a list"}]),
    ok = encke:logout(Absent),
    ok = encke:stop(),
    undefined = encke:current(),
    {'EXIT', _} = catch encke:send(Absent, "somebody of a list", hello).

until_pid(Name) ->
    Is = fun() -> is_pid(global:whereis_name(Name)) end,
    true = until(true, Is),
    global:whereis_name(Name).

until(Wanted, Ask) ->
    until(Wanted, Ask, 500).

until(Wanted, Ask, Times) ->
    case Ask() of
        Wanted -> Wanted;
        Other when Times =:= 0 -> Other;
        _ -> timer:sleep(10), until(Wanted, Ask, Times - 1)
    end.
