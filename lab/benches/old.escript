#!/usr/bin/env escript
%%! +S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none
%% Erlang's own, for comparison: one scheduler, that does not wait busily.
%%
%%   old.escript hello PORT            a hello-world server over gen_tcp, like that of 2009
%%   old.escript proxy PORT TO         a TCP proxy, a process a connection, like that of 2012
-mode(compile).

main(["hello", Port]) ->
    serve(Port, fun hello/1);
main(["proxy", Port, To]) ->
    serve(Port, fun(Client) -> proxy(Client, list_to_integer(To)) end).

serve(Port, Serve) ->
    Options = [binary, {ip, {127, 0, 0, 1}}, {active, false}, {reuseaddr, true}, {nodelay, true},
               {backlog, 4096}],
    {ok, Listener} = gen_tcp:listen(list_to_integer(Port), Options),
    [spawn_acceptor(Listener, Serve) || _ <- lists:seq(1, 16)],
    receive after infinity -> ok end.

spawn_acceptor(Listener, Serve) ->
    spawn(fun() ->
        {ok, Client} = gen_tcp:accept(Listener),
        spawn_acceptor(Listener, Serve),
        Serve(Client)
    end).

hello(Client) ->
    case gen_tcp:recv(Client, 0) of
        {ok, Request} ->
            %% Requests are small and come whole here.
            case binary:match(Request, <<"Connection: close">>) of
                nomatch ->
                    ok = gen_tcp:send(Client, <<"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello">>),
                    hello(Client);
                _ ->
                    gen_tcp:send(Client, <<"HTTP/1.1 200 OK\r\nConnection: close\r\n"
                                           "Content-Length: 5\r\n\r\nhello">>),
                    gen_tcp:close(Client)
            end;
        {error, _} ->
            gen_tcp:close(Client)
    end.

proxy(Client, To) ->
    {ok, Backend} = gen_tcp:connect({127, 0, 0, 1}, To, [binary, {active, false}, {nodelay, true}]),
    relay(Client, Backend).

relay(Client, Backend) ->
    inet:setopts(Client, [{active, once}]),
    inet:setopts(Backend, [{active, once}]),
    receive
        {tcp, Client, Data} -> pass(Backend, Data, Client, Backend);
        {tcp, Backend, Data} -> pass(Client, Data, Client, Backend);
        _Ended -> gen_tcp:close(Client), gen_tcp:close(Backend)
    end.

pass(To, Data, Client, Backend) ->
    case gen_tcp:send(To, Data) of
        ok -> relay(Client, Backend);
        {error, _} -> gen_tcp:close(Client), gen_tcp:close(Backend)
    end.
