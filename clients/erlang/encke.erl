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
-export([send/3, cast/3, post/3, login/2, login/3, logout/1, logout/2]).
-export([add_subscriptions/2, remove_subscriptions/2, get_subscribers/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([id/0, subscription/0]).

-type id() :: integer() | atom() | binary() | string() | term().
-type subscription() :: {id(), id()} | {subscription, id(), id()}.

%% The names that are kept registered in global.
-define(NAMES, [router, subsmanager]).
%% Milliseconds before another attempt to register a lost name.
-define(AGAIN, 500).
%% Milliseconds to wait for an answer. A change of many subscriptions takes a while.
-define(PATIENCE, 60000).

%% @doc Keeps Encke's `router' and `subsmanager' registered in `global' for as long as this process lives,
%% also after Encke has restarted. Run it under a supervisor on one node of the cluster, or on every node.
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

%% @doc Logs `Pid' in as a session of `Id', until it exits. A process may have 128 ids.
-spec login(node(), id(), pid()) -> ok | {error, binary()}.
login(Node, Id, Pid) ->
    gen_server:call({router, Node}, {login, Id, Pid}).

%% @doc Logs the caller out of all its ids.
-spec logout(node()) -> ok | {error, binary()}.
logout(Node) ->
    logout(Node, self()).

%% @doc Logs `Pid' out of all its ids.
-spec logout(node(), pid()) -> ok | {error, binary()}.
logout(Node, Pid) ->
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

%% @private
init(Node) ->
    process_flag(trap_exit, true),
    self() ! find,
    {ok, {Node, #{}}}.

%% @private
handle_call(_, _, State) ->
    {reply, {error, unknown}, State}.

%% @private
handle_cast(_, State) ->
    {noreply, State}.

%% @private
handle_info(find, State = {_, Monitors}) when map_size(Monitors) > 0 ->
    {noreply, State};
handle_info(find, {Node, _}) ->
    {noreply, {Node, find(Node)}};
handle_info({'DOWN', _, process, Pid, _}, {Node, Monitors}) ->
    _ = [global:unregister_name(Name) || Name <- ?NAMES, global:whereis_name(Name) =:= Pid],
    _ = erlang:send_after(?AGAIN, self(), find),
    {noreply, {Node, maps:filter(fun(_, Known) -> Known =/= Pid end, Monitors)}};
handle_info(_, State) ->
    {noreply, State}.

%% @private
terminate(_, {_, Monitors}) ->
    _ = [global:unregister_name(Name) || {_, Pid} <- maps:to_list(Monitors),
                                         Name <- ?NAMES, global:whereis_name(Name) =:= Pid],
    ok.

%% Registers the names and monitors their processes. Without Encke, tries again later.
find(Node) ->
    try
        Pids = [{Name, gen_server:call({Name, Node}, pid)} || Name <- ?NAMES],
        maps:from_list([begin
                            yes = global:re_register_name(Name, Pid),
                            {erlang:monitor(process, Pid), Pid}
                        end || {Name, Pid} <- Pids])
    catch
        _:_ ->
            _ = erlang:send_after(?AGAIN, self(), find),
            #{}
    end.
