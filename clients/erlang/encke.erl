%% @doc A client of Encke, the push server, for Erlang nodes.
%%
%% Encke is a hidden node of the cluster. It answers as the gen_servers `router' and `subsmanager', so all
%% that is here can be said with `gen_server:call/2' as well; this module says it shorter, and keeps the two
%% names in `global':
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

%% The names that are kept in global.
-define(NAMES, [router, subsmanager]).
%% How soon a lost name is looked for again, in milliseconds.
-define(AGAIN, 500).
%% A change of many subscriptions takes a while.
-define(PATIENCE, 60000).

%% @doc Registers Encke's `router' and `subsmanager' in `global', and again whenever Encke comes back, for as
%% long as this process lives. Put it under a supervisor of one node of the cluster, or of each.
-spec start_link(node()) -> {ok, pid()} | {error, term()}.
start_link(Node) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Node, []).

%% @doc Ends the process of {@link start_link/1}; the names are given up.
-spec stop() -> ok.
stop() ->
    gen_server:stop(?MODULE).

%% @doc Publishes `Msg' to every session of every subscriber of `Id', and of `Id'. Returns how many sessions
%% it reached.
-spec send(node(), id(), term()) -> {ok, non_neg_integer()} | {error, binary()}.
send(Node, Id, Msg) ->
    gen_server:call({router, Node}, {send, Id, Msg}).

%% @doc As {@link send/3}, and waits for nothing.
-spec cast(node(), id(), term()) -> ok.
cast(Node, Id, Msg) ->
    gen_server:cast({router, Node}, {send, Id, Msg}).

%% @doc Sends `Body' to the sessions of `Id' alone, as to a C-node, and waits for nothing.
-spec post(node(), id(), iodata()) -> ok.
post(Node, Id, Body) ->
    {any, Node} ! {Id, Body},
    ok.

%% @doc Makes the caller a session of `Id': from now on it receives `{router_msg, Msg}'.
-spec login(node(), id()) -> ok | {error, binary()}.
login(Node, Id) ->
    login(Node, Id, self()).

%% @doc Makes `Pid' a session of `Id', until it exits. It may have 128 ids.
-spec login(node(), id(), pid()) -> ok | {error, binary()}.
login(Node, Id, Pid) ->
    gen_server:call({router, Node}, {login, Id, Pid}).

%% @doc Takes all ids from the caller.
-spec logout(node()) -> ok | {error, binary()}.
logout(Node) ->
    logout(Node, self()).

%% @doc Takes all ids from `Pid'.
-spec logout(node(), pid()) -> ok | {error, binary()}.
logout(Node, Pid) ->
    gen_server:call({router, Node}, {logout, Pid}).

%% @doc Subscribes: pairs of subscriber and subject, or records of them.
-spec add_subscriptions(node(), [subscription()]) -> ok | {error, binary()}.
add_subscriptions(Node, Subscriptions) ->
    gen_server:call({subsmanager, Node}, {add_subscriptions, Subscriptions}, ?PATIENCE).

%% @doc Ends subscriptions.
-spec remove_subscriptions(node(), [subscription()]) -> ok | {error, binary()}.
remove_subscriptions(Node, Subscriptions) ->
    gen_server:call({subsmanager, Node}, {remove_subscriptions, Subscriptions}, ?PATIENCE).

%% @doc Who subscribes to `Id', as they were spelt when they were added.
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

%% Registers the names and watches who has them. Nothing, and again later, if Encke is not there.
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
