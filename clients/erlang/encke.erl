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
%% An id is an integer, an atom, a binary or a string, or any other term whose text is at most 128 bytes.
%% `alice', `<<"alice">>' and `"alice"' are one id.
-module(encke).
-behaviour(gen_server).

-export([start_link/1, stop/0]).
-export([send/3, cast/3, post/3, login/2, login/3, login/4, logout/1, logout/2]).
-export([add_subscriptions/2, remove_subscriptions/2, get_subscribers/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([id/0, subscription/0, option/0]).

-type id() :: integer() | atom() | binary() | string() | term().
-type subscription() :: {id(), id()} | {subscription, id(), id()}.
-type option() :: link | gap | presence.

%% The names that are kept registered in global.
-define(NAMES, [router, subsmanager]).
%% Milliseconds before another attempt to register a lost name.
-define(AGAIN, 500).
%% Milliseconds to wait for an answer. A change of many subscriptions takes a while.
-define(PATIENCE, 60000).

%% @doc Keeps Encke's `router' and `subsmanager' registered in `global' for as long as this process lives,
%% also after Encke has restarted, and then repeats the logins of this node's processes. Run it under a supervisor on one node of the cluster, or on every node.
-spec start_link(node()) -> {ok, pid()} | {error, term()}.
start_link(Node) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Node, []).

%% @doc Stops the process of {@link start_link/1} and unregisters the names.
-spec stop() -> ok.
stop() ->
    gen_server:stop(?MODULE).

%% @doc Publishes `Msg' to all sessions of `Id' and of its subscribers. Returns the number of sessions that
%% it reached.
-spec send(node(), id(), term()) -> {ok, non_neg_integer()} | {error, binary()}.
send(Node, Id, Msg) ->
    gen_server:call({router, Node}, {send, Id, Msg}).

%% @doc Publishes like {@link send/3}, without waiting for an answer.
-spec cast(node(), id(), term()) -> ok.
cast(Node, Id, Msg) ->
    gen_server:cast({router, Node}, {send, Id, Msg}).

%% @doc Sends `Body' to the sessions of `Id' only, as to a C-node, without waiting for an answer.
-spec post(node(), id(), iodata()) -> ok.
post(Node, Id, Body) ->
    {any, Node} ! {Id, Body},
    ok.

%% @doc Logs the caller in as a session of `Id', which receives `{router_msg, Msg}'.
-spec login(node(), id()) -> ok | {error, binary()}.
login(Node, Id) ->
    login(Node, Id, self()).

%% @doc Logs `Pid' in as a session of `Id', until it exits. A process may have 128 ids. If the process of
%% {@link start_link/1} runs on this node, it remembers the login and repeats it when Encke has restarted.
-spec login(node(), id(), pid()) -> ok | {error, binary()}.
login(Node, Id, Pid) ->
    login(Node, Id, Pid, []).

%% @doc Logs `Pid' in with options. With `gap', it gets `{router_gap, N}' when it has lost `N' events. With `presence',
%% it gets `{presence_snapshot, Ids, Part}' and then `{presence, Id, online | offline}' of those that it follows. With
%% `link', the process gets the exit signal `noconnection' when Encke is gone, as from a link with a router that is a
%% process; such a login is not repeated.
-spec login(node(), id(), pid(), [option()]) -> ok | {error, binary()}.
login(Node, Id, Pid, Options) ->
    Login = {login, Id, Pid, Options},
    case lists:member(link, Options) of
        true ->
            gen_server:call({router, Node}, Login);
        false ->
            % It is remembered first: Encke may restart before it has answered.
            ok = ask({remember, Node, Id, Pid, Options}),
            case gen_server:call({router, Node}, Login) of
                ok -> ok;
                Error -> ok = ask({forget, Node, Id, Pid}), Error
            end
    end.

%% @doc Logs the caller out of all its ids.
-spec logout(node()) -> ok | {error, binary()}.
logout(Node) ->
    logout(Node, self()).

%% @doc Logs `Pid' out of all its ids.
-spec logout(node(), pid()) -> ok | {error, binary()}.
logout(Node, Pid) ->
    ok = ask({forget, Node, Pid}),
    gen_server:call({router, Node}, {logout, Pid}).

%% @doc Adds subscriptions: pairs or records of subscriber and subject.
-spec add_subscriptions(node(), [subscription()]) -> ok | {error, binary()}.
add_subscriptions(Node, Subscriptions) ->
    gen_server:call({subsmanager, Node}, {add_subscriptions, Subscriptions}, ?PATIENCE).

%% @doc Removes subscriptions.
-spec remove_subscriptions(node(), [subscription()]) -> ok | {error, binary()}.
remove_subscriptions(Node, Subscriptions) ->
    gen_server:call({subsmanager, Node}, {remove_subscriptions, Subscriptions}, ?PATIENCE).

%% @doc Lists the subscribers of `Id', as the terms that added them.
-spec get_subscribers(node(), id()) -> [id()] | {error, binary()}.
get_subscribers(Node, Id) ->
    gen_server:call({subsmanager, Node}, {get_subscribers, Id}, ?PATIENCE).

%% The process of start_link/1: its node, the monitors of Encke's names, and the logins that it repeats.
-record(state, {
    node :: node(),
    names = #{} :: #{reference() => pid()},
    logins = #{} :: #{pid() => {reference(), [{id(), [option()]}]}}
}).

%% @private
init(Node) ->
    process_flag(trap_exit, true),
    self() ! find,
    {ok, #state{node = Node}}.

%% @private
handle_call({remember, Node, Id, Pid, Options}, _, State = #state{node = Node, logins = Logins}) ->
    Login = case Logins of
        #{Pid := {Monitor, Ids}} -> {Monitor, lists:keystore(Id, 1, Ids, {Id, Options})};
        _ -> {erlang:monitor(process, Pid), [{Id, Options}]}
    end,
    {reply, ok, State#state{logins = Logins#{Pid => Login}}};
handle_call({forget, Node, Id, Pid}, _, State = #state{node = Node, logins = Logins}) ->
    case Logins of
        #{Pid := {Monitor, Ids}} ->
            case lists:keydelete(Id, 1, Ids) of
                [] -> {reply, ok, forget(Pid, State)};
                Others -> {reply, ok, State#state{logins = Logins#{Pid => {Monitor, Others}}}}
            end;
        _ ->
            {reply, ok, State}
    end;
handle_call({forget, Node, Pid}, _, State = #state{node = Node}) ->
    {reply, ok, forget(Pid, State)};
handle_call({remember, _, _, _, _}, _, State) ->
    % It is about another Encke.
    {reply, ok, State};
handle_call({forget, _, _, _}, _, State) ->
    {reply, ok, State};
handle_call({forget, _, _}, _, State) ->
    {reply, ok, State};
handle_call(_, _, State) ->
    {reply, {error, unknown}, State}.

%% @private
handle_cast(_, State) ->
    {noreply, State}.

%% @private
handle_info(find, State = #state{names = Names}) when map_size(Names) > 0 ->
    {noreply, State};
handle_info(find, State) ->
    {noreply, find(State)};
handle_info({'DOWN', Monitor, process, Pid, _}, State = #state{names = Names, logins = Logins}) ->
    case Logins of
        #{Pid := {Monitor, _}} ->
            {noreply, State#state{logins = maps:remove(Pid, Logins)}};
        _ ->
            _ = [global:unregister_name(Name) || Name <- ?NAMES, global:whereis_name(Name) =:= Pid],
            _ = erlang:send_after(?AGAIN, self(), find),
            {noreply, State#state{names = maps:filter(fun(_, Known) -> Known =/= Pid end, Names)}}
    end;
handle_info(_, State) ->
    {noreply, State}.

%% @private
terminate(_, #state{names = Names}) ->
    _ = [global:unregister_name(Name) || {_, Pid} <- maps:to_list(Names),
                                         Name <- ?NAMES, global:whereis_name(Name) =:= Pid],
    ok.

%% Asks the process of start_link/1, if there is one.
ask(Request) ->
    try
        gen_server:call(?MODULE, Request, ?PATIENCE)
    catch
        exit:{noproc, _} -> ok
    end.

forget(Pid, State = #state{logins = Logins}) ->
    case maps:take(Pid, Logins) of
        {{Monitor, _}, Others} ->
            erlang:demonitor(Monitor, [flush]),
            State#state{logins = Others};
        error ->
            State
    end.

%% Registers the names, monitors their processes and repeats the logins. Without Encke, tries again later.
find(State = #state{node = Node, logins = Logins}) ->
    try
        Pids = [{Name, gen_server:call({Name, Node}, pid)} || Name <- ?NAMES],
        Names = maps:from_list([begin
                                    yes = global:re_register_name(Name, Pid),
                                    {erlang:monitor(process, Pid), Pid}
                                end || {Name, Pid} <- Pids]),
        _ = [gen_server:cast({router, Node}, {login, Id, Pid, Options})
             || {Pid, {_, Ids}} <- maps:to_list(Logins), {Id, Options} <- Ids],
        State#state{names = Names}
    catch
        _:_ ->
            _ = erlang:send_after(?AGAIN, self(), find),
            State
    end.
