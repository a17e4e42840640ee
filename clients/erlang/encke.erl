%% @doc A client of Encke, the push server, for Erlang nodes.
%%
%% Encke is a hidden node of the cluster. It answers like two gen_servers, `router' and `subsmanager', so
%% `gen_server:call/2' can do everything that this module does. The module is shorter to call, and keeps the
%% two names registered in `global':
%%
%% ```
%% {ok, _} = encke:start_link('encke@127.0.0.1'),
%% {ok, 2} = gen_server:call(global:whereis_name(router), {send, rj, <<"hello">>}).
%% '''
%%
%% If Encke is a cluster of several nodes, {@link start_link/1} takes a list of them. It uses one, and goes on
%% with the next when that one is gone. Where its process runs, each node of the list stands for the one that is
%% used, or tried next: all functions take any of them.
%%
%% An id is an integer, an atom, a binary or a string, or any other term whose text is at most 128 bytes.
%% `alice', `<<"alice">>' and `"alice"' are one id.
-module(encke).
-behaviour(gen_server).

-export([start_link/1, stop/0, current/0]).
-export([send/3, cast/3, post/3, login/2, login/3, login/4, logout/1, logout/2]).
-export([add_subscriptions/2, remove_subscriptions/2, get_subscribers/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([id/0, subscription/0, option/0]).

-type id() :: integer() | atom() | binary() | string() | term().
-type subscription() :: {id(), id()} | {subscription, id(), id()}.
-type option() :: link | gap | presence.

%% The names that are kept registered in global.
-define(NAMES, [router, subsmanager]).
%% Milliseconds before another node is tried, and at most so many after rounds in which none has answered. All delays
%% are spread, so that not all nodes of a cluster come at once.
-define(AGAIN, 500).
-define(AGAIN_MAX, 5000).
%% Milliseconds after which a node that is tried is given up.
-define(TRIAL, 3000).
%% Milliseconds between two looks whether the names are registered: another node may have lost or removed them.
-define(LOOK, 1000).
%% Milliseconds to wait for an answer. A change of many subscriptions takes a while.
-define(PATIENCE, 60000).

%% @doc Keeps Encke's `router' and `subsmanager' registered in `global' for as long as this process lives,
%% also after Encke has restarted, and then repeats the logins of this node's processes. Run it under a supervisor on
%% one node of the cluster, or on every node.
%%
%% Of a list of nodes, which must be one Encke cluster, the first that answers is used until it is gone, or has lost
%% its cluster; then the next, to which names and logins move. A name that another node of the list has is left there as long as that lives.
-spec start_link(node() | [node(), ...]) -> {ok, pid()} | {error, term()}.
start_link(Node) when is_atom(Node) ->
    start_link([Node]);
start_link(Nodes = [_ | _]) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Nodes, []).

%% @doc Stops the process of {@link start_link/1} and unregisters the names.
-spec stop() -> ok.
stop() ->
    gen_server:stop(?MODULE).

%% @doc Returns the Encke node that the process of {@link start_link/1} uses now; `undefined' if none answers, or
%% if the process does not run on this node.
-spec current() -> node() | undefined.
current() ->
    known(current, undefined).

%% @doc Publishes `Msg' to all sessions of `Id' and of its subscribers. Returns the number of sessions that
%% it reached.
-spec send(node(), id(), term()) -> {ok, non_neg_integer()} | {error, binary()}.
send(Node, Id, Msg) ->
    gen_server:call({router, at(Node)}, {send, Id, Msg}).

%% @doc Publishes like {@link send/3}, without waiting for an answer.
-spec cast(node(), id(), term()) -> ok.
cast(Node, Id, Msg) ->
    gen_server:cast({router, at(Node)}, {send, Id, Msg}).

%% @doc Sends `Body' to the sessions of `Id' only, as to a C-node, without waiting for an answer.
-spec post(node(), id(), iodata()) -> ok.
post(Node, Id, Body) ->
    {any, at(Node)} ! {Id, Body},
    ok.

%% @doc Logs the caller in as a session of `Id', which receives `{router_msg, Msg}'.
-spec login(node(), id()) -> ok | {error, binary()}.
login(Node, Id) ->
    login(Node, Id, self()).

%% @doc Logs `Pid' in as a session of `Id', until it exits. A process may have 128 ids. If the process of
%% {@link start_link/1} runs on this node, it remembers the login, and repeats it when Encke has restarted or at
%% another node of its list.
-spec login(node(), id(), pid()) -> ok | {error, binary()}.
login(Node, Id, Pid) ->
    login(Node, Id, Pid, []).

%% @doc Logs `Pid' in with options. With `gap', it gets `{router_gap, N}' when it has lost `N' events, and
%% `{router_gap, unknown}' before its login is repeated. With `presence', it gets `{presence_snapshot, Ids, Part}' and then `{presence, Id, online | offline}' of those that it follows. With
%% `link', the process gets the exit signal `noconnection' when Encke is gone, as from a link with a router that is a
%% process; such a login is not repeated. Options of a later login of a process are added to those of its earlier ones.
-spec login(node(), id(), pid(), [option()]) -> ok | {error, binary()}.
login(Node, Id, Pid, Options) ->
    Login = {login, Id, Pid, Options},
    case lists:member(link, Options) of
        true ->
            gen_server:call({router, at(Node)}, Login);
        false ->
            % It is remembered first: Encke may restart before it has answered.
            Before = ask({remember, Node, Id, Pid, Options}, none),
            case gen_server:call({router, at(Node)}, Login) of
                ok -> ok;
                % An earlier login as this id still holds.
                Error -> ok = ask({restore, Node, Id, Pid, Before}, ok), Error
            end
    end.

%% @doc Logs the caller out of all its ids.
-spec logout(node()) -> ok | {error, binary()}.
logout(Node) ->
    logout(Node, self()).

%% @doc Logs `Pid' out of all its ids.
-spec logout(node(), pid()) -> ok | {error, binary()}.
logout(Node, Pid) ->
    ok = ask({forget, Node, Pid}, ok),
    gen_server:call({router, at(Node)}, {logout, Pid}).

%% @doc Adds subscriptions: pairs or records of subscriber and subject.
-spec add_subscriptions(node(), [subscription()]) -> ok | {error, binary()}.
add_subscriptions(Node, Subscriptions) ->
    gen_server:call({subsmanager, at(Node)}, {add_subscriptions, Subscriptions}, ?PATIENCE).

%% @doc Removes subscriptions.
-spec remove_subscriptions(node(), [subscription()]) -> ok | {error, binary()}.
remove_subscriptions(Node, Subscriptions) ->
    gen_server:call({subsmanager, at(Node)}, {remove_subscriptions, Subscriptions}, ?PATIENCE).

%% @doc Lists the subscribers of `Id', as the terms that added them.
-spec get_subscribers(node(), id()) -> [id()] | {error, binary()}.
get_subscribers(Node, Id) ->
    gen_server:call({subsmanager, at(Node)}, {get_subscribers, Id}, ?PATIENCE).

%% The process of start_link/1. The first of its nodes is used, or tried next.
-record(state, {
    nodes :: [node(), ...],
    % Encke's processes at the node that is used, by their names, and monitors of them; none while no node answers.
    names = [] :: [{atom(), pid()}],
    monitors = [] :: [reference()],
    % What was registered for nodes that were left although they live.
    left = [] :: [pid()],
    % Attempts since a node has answered.
    failures = 0 :: non_neg_integer(),
    timer :: reference() | undefined,
    % Logins that it repeats.
    logins = #{} :: #{pid() => {reference(), [{id(), [option()]}]}}
}).

%% @private
init(Nodes) ->
    process_flag(trap_exit, true),
    % Each node of the list, with the one that is used or tried next; and the one that is used, as `current'.
    ?MODULE = ets:new(?MODULE, [named_table, {read_concurrency, true}]),
    State = #state{nodes = Nodes},
    ok = point_at_first(State),
    {ok, look_after(0, State)}.

%% @private
handle_call({remember, Node, Id, Pid, Options}, _, State = #state{nodes = Nodes, logins = Logins}) ->
    case lists:member(Node, Nodes) of
        true ->
            {Monitor, Ids} = case Logins of
                #{Pid := Known} -> Known;
                _ -> {erlang:monitor(process, Pid), []}
            end,
            {Before, All} = case lists:keyfind(Id, 1, Ids) of
                % Encke adds the options to the earlier ones, too.
                {_, Earlier} -> {Earlier, lists:usort(Earlier ++ Options)};
                false -> {none, Options}
            end,
            Changed = {Monitor, lists:keystore(Id, 1, Ids, {Id, All})},
            {reply, Before, State#state{logins = Logins#{Pid => Changed}}};
        false ->
            % It is about another Encke.
            {reply, none, State}
    end;
handle_call({restore, Node, Id, Pid, Before}, _, State = #state{nodes = Nodes, logins = Logins}) ->
    case {lists:member(Node, Nodes), Logins} of
        {true, #{Pid := {Monitor, Ids}}} ->
            Restored = case Before of
                none -> lists:keydelete(Id, 1, Ids);
                _ -> lists:keystore(Id, 1, Ids, {Id, Before})
            end,
            case Restored of
                [] -> {reply, ok, forget(Pid, State)};
                _ -> {reply, ok, State#state{logins = Logins#{Pid => {Monitor, Restored}}}}
            end;
        _ ->
            {reply, ok, State}
    end;
handle_call({forget, Node, Pid}, _, State = #state{nodes = Nodes}) ->
    case lists:member(Node, Nodes) of
        true -> {reply, ok, forget(Pid, State)};
        false -> {reply, ok, State}
    end;
handle_call(_, _, State) ->
    {reply, {error, unknown}, State}.

%% @private
handle_cast(_, State) ->
    {noreply, State}.

%% @private
handle_info({timeout, Timer, look}, State = #state{timer = Timer, names = []}) ->
    {noreply, connect(State)};
handle_info({timeout, Timer, look}, State = #state{timer = Timer}) ->
    case takes_clients(State) of
        true ->
            ok = claim_names(known, State),
            {noreply, look_after(spread(?LOOK), State)};
        false ->
            {noreply, leave(State)}
    end;
handle_info({'DOWN', Monitor, process, Pid, _}, State = #state{monitors = Monitors, logins = Logins}) ->
    case {lists:member(Monitor, Monitors), Logins} of
        {true, _} -> {noreply, lose(State)};
        {false, #{Pid := {Monitor, _}}} -> {noreply, State#state{logins = maps:remove(Pid, Logins)}};
        _ -> {noreply, State}
    end;
handle_info(_, State) ->
    {noreply, State}.

%% @private
terminate(_, #state{names = Names}) ->
    _ = [global:unregister_name(Name) || {Name, Pid} <- Names, global:whereis_name(Name) =:= Pid],
    ok.

%% Returns the node to ask where one was named: of the list, the one that is used, or tried next. So no process is logged
%% in at two nodes.
at(Node) ->
    known(Node, Node).

known(Key, Default) ->
    try
        ets:lookup_element(?MODULE, Key, 2)
    catch
        error:badarg -> Default
    end.

point_at_first(#state{nodes = Nodes = [First | _]}) ->
    true = ets:insert(?MODULE, [{Node, First} || Node <- Nodes]),
    ok.

%% Asks the process of start_link/1. Returns `Default' if there is none.
ask(Request, Default) ->
    try
        gen_server:call(?MODULE, Request, ?PATIENCE)
    catch
        exit:{noproc, _} -> Default
    end.

forget(Pid, State = #state{logins = Logins}) ->
    case maps:take(Pid, Logins) of
        {{Monitor, _}, Others} ->
            erlang:demonitor(Monitor, [flush]),
            State#state{logins = Others};
        error ->
            State
    end.

%% Tries the next node. If it answers, logins and names move to it.
connect(State = #state{nodes = [Node | _]}) ->
    try [{Name, pid_at(Name, Node)} || Name <- ?NAMES] of
        Names ->
            Monitors = [erlang:monitor(process, Pid) || {_, Pid} <- Names],
            Connected = State#state{names = Names, monitors = Monitors, failures = 0},
            true = ets:insert(?MODULE, {current, Node}),
            ok = repeat_logins(Connected),
            ok = claim_names(new, Connected),
            look_after(spread(?LOOK), Connected#state{left = []})
    catch
        _:_ -> fail(State)
    end.

pid_at(Name, Node) ->
    Pid = gen_server:call({Name, Node}, pid, ?TRIAL),
    true = is_pid(Pid),
    Pid.

%% Whether the node that is used takes clients. One that does not can still be asked, and says so: it has lost its
%% cluster. Of one that is gone, or silent, its monitor tells.
takes_clients(#state{nodes = [Node | _]}) ->
    try gen_server:call({router, Node}, pid, ?TRIAL) of
        {error, _} -> false;
        _ -> true
    catch
        exit:_ -> true
    end.

%% Logs processes out at the node that was used, or they would get events twice when it has found its cluster again.
leave(State = #state{nodes = [Node | _], names = Names, logins = Logins}) ->
    _ = [gen_server:cast({router, Node}, {logout, Pid}) || Pid <- maps:keys(Logins)],
    lose(State#state{left = [Pid || {_, Pid} <- Names]}).

%% The node that was used is gone.
lose(State = #state{monitors = Monitors}) ->
    _ = [erlang:demonitor(Monitor, [flush]) || Monitor <- Monitors],
    true = ets:delete(?MODULE, current),
    fail(State#state{names = [], monitors = []}).

%% Goes on with the next node after a while, which grows from round to round.
fail(State = #state{nodes = [Node | Others], failures = Failures}) ->
    Round = Failures div (1 + length(Others)),
    Delay = min(?AGAIN_MAX, ?AGAIN bsl min(Round, 10)),
    Next = State#state{nodes = Others ++ [Node], failures = Failures + 1},
    ok = point_at_first(Next),
    look_after(spread(Delay), Next).

%% Looks after so many milliseconds, and not when it was to look before.
look_after(Delay, State = #state{timer = Timer}) ->
    _ = [erlang:cancel_timer(Timer) || Timer =/= undefined],
    State#state{timer = erlang:start_timer(Delay, self(), look)}.

%% Between a half and the whole of a time.
spread(Milliseconds) ->
    Milliseconds div 2 + rand:uniform(Milliseconds div 2).

repeat_logins(#state{nodes = [Node | _], logins = Logins}) ->
    Repeat = fun(Pid, Ids) ->
        % It has lost what came meanwhile, if anything did.
        HearsGaps = lists:any(fun({_, Options}) -> lists:member(gap, Options) end, Ids),
        _ = [Pid ! {router_gap, unknown} || HearsGaps],
        [gen_server:cast({router, Node}, {login, Id, Pid, Options}) || {Id, Options} <- Ids]
    end,
    _ = [Repeat(Pid, Ids) || {Pid, {_, Ids}} <- maps:to_list(Logins)],
    ok.

%% Registers the names that are not registered, and those of an earlier run of the node, or of one that was left. Names of
%% other nodes of the list stay; from strangers they are taken once, or two processes with different lists would take them from each other for ever.
claim_names(When, State = #state{names = Names}) ->
    _ = [claim(Name, Pid, global:whereis_name(Name), When, State) || {Name, Pid} <- Names],
    ok.

claim(_, Pid, Pid, _, _) ->
    ok;
claim(Name, Pid, undefined, _, _) ->
    % `no' if another node was quicker.
    _ = global:register_name(Name, Pid);
claim(Name, Pid, Other, When, #state{nodes = Nodes, left = Left}) ->
    IsOld = node(Other) =:= node(Pid) orelse lists:member(Other, Left),
    IsStranger = not lists:member(node(Other), Nodes),
    case IsOld orelse IsStranger andalso When =:= new of
        true -> _ = global:re_register_name(Name, Pid);
        false -> ok
    end.
