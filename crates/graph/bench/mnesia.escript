#!/usr/bin/env escript
%%! -mnesia dump_log_write_threshold 50000 -mnesia dc_dump_limit 40
%% The subscriptions of a list of friendships in Mnesia, as a system of 2008 kept them: a bag with a copy in
%% memory and one on disk, and an index on the subject. Usage: mnesia.escript DIR LIST

%% An escript is interpreted unless it says so.
-mode(compile).

-record(subscription, {subscriber, subject}).

main([Dir, List]) ->
    application:set_env(mnesia, dir, Dir),
    ok = mnesia:create_schema([node()]),
    ok = mnesia:start(),
    {atomic, ok} = mnesia:create_table(subscription, [
        {disc_copies, [node()]}, {type, bag}, {index, [subject]},
        {attributes, record_info(fields, subscription)}]),
    {ok, File} = file:open(List, [read, raw, binary, {read_ahead, 1 bsl 20}]),
    Start = erlang:monotonic_time(millisecond),
    Edges = load(File, 0),
    dumped = mnesia:dump_log(),
    Loaded = erlang:monotonic_time(millisecond),
    {CPU, _} = erlang:statistics(runtime),
    Words = mnesia:table_info(subscription, memory),
    io:format("mnesia edges: ~b~nmnesia load: ~.3f s~nmnesia load, user and system time: ~.3f s~n"
              "mnesia table in memory, without its index: ~.3f MB~n",
              [Edges, (Loaded - Start) / 1000, CPU / 1000, Words * 8 / 1.0e6]),
    stopped = mnesia:stop(),
    Again = erlang:monotonic_time(millisecond),
    ok = mnesia:start(),
    ok = mnesia:wait_for_tables([subscription], infinity),
    io:format("mnesia open: ~.3f s~n", [(erlang:monotonic_time(millisecond) - Again) / 1000]),
    Files = filelib:wildcard(filename:join(Dir, "*")),
    Bytes = lists:sum([filelib:file_size(Name) || Name <- Files]),
    {ok, Status} = file:read_file("/proc/self/status"),
    {match, [KiB]} = re:run(Status, "VmHWM:\\s+(\\d+)", [{capture, [1], list}]),
    io:format("mnesia files: ~.3f MB~nmnesia peak memory: ~.3f MB~n",
              [Bytes / 1.0e6, list_to_integer(KiB) * 1024 / 1.0e6]).

%% A thousand friendships in a transaction.
load(File, Edges) ->
    case take(File, 1000, []) of
        [] -> Edges;
        Pairs ->
            ok = mnesia:activity(sync_dirty, fun() ->
                lists:foreach(fun({A, B}) ->
                    ok = mnesia:write(#subscription{subscriber = A, subject = B}),
                    ok = mnesia:write(#subscription{subscriber = B, subject = A})
                end, Pairs)
            end),
            load(File, Edges + 2 * length(Pairs))
    end.

take(_, 0, Pairs) -> Pairs;
take(File, Left, Pairs) ->
    case file:read_line(File) of
        eof -> Pairs;
        {ok, Line} ->
            [A, B] = binary:split(string:trim(Line), <<" ">>),
            take(File, Left - 1, [{binary_to_integer(A), binary_to_integer(B)} | Pairs])
    end.
