/** A value, or a function that gives the current one and is called at each attempt to connect. */
export type Source = string | (() => string | Promise<string>);

/** Way to receive events. */
export type Transport = 'sse' | 'websocket' | 'poll';

/**
 * State of a client. `connecting` is the first attempt, `live` has a stream, `reconnecting` waits or tries again,
 * `refused` and `closed` are final, for this tab alone.
 */
export type State = 'connecting' | 'live' | 'reconnecting' | 'refused' | 'closed';

/** Event about an id. */
export interface EnckeEvent {
  /** Name of the event, and the cursor of a client that has received it. */
  id: string;
  /** Id that the event is about. */
  subject: string | number;
  /** Type that the publisher gave, if it gave one. */
  type?: string;
  /** A JSON value, a text, or bytes. */
  data: unknown;
  /** `base64` if `data` was bytes. They are decoded. */
  encoding?: 'base64';
}

/** Event to be published. */
export interface NewEvent {
  /** Id that the event is about. */
  subject: string | number;
  /** Type, if it is to have one. */
  type?: string;
  /** A text, bytes, or a JSON value. */
  data: unknown;
}

/** Notice that events may be missing. Load the whole state again; what the server has follows. */
export interface Reset {
  /** The server was restarted without its history, the cursor is too old, or the server does not know it. */
  reason: 'restart' | 'expired' | 'unknown';
  /** Cursor that the client came with. */
  from?: string;
}

/** Notice that the server dropped events because this client was too slow. */
export interface Gap {
  /** Number of events that were dropped. */
  lost: number;
}

/** An id that has come online or gone offline. */
export interface Change {
  /** The id, as the server writes it: `7` is a number. */
  id: string | number;
  online: boolean;
}

export interface Options {
  /** Address of the public listener, with the path that Encke has behind a proxy. By default that of the page. */
  url?: string;
  /** Ids whose events are received. May be left out with a token that names its subject. */
  ids?: string | number | readonly (string | number)[];
  /** Token (JWT), sent as `Authorization: Bearer`. Use a function, as tokens expire. */
  token?: Source;
  /** Ticket of the backend (`POST /v1/tickets`), sent in the query. Use a function, as tickets expire. */
  ticket?: Source;
  /** Lets WebSocket carry the token in the query. The server must allow it (`--jwt-query`), and proxies may log it. */
  tokenInQuery?: boolean;
  /** Whether cookies go to another origin, as in `fetch`. */
  credentials?: RequestCredentials;
  /** Where to begin: the id of the last event received, or `earliest`. By default now. */
  cursor?: string;
  /** Transports to try, in this order. By default all three. */
  transports?: readonly Transport[];
  /**
   * One connection for all tabs of a browser that give the same name. By default tabs with the same `url`, `ids` and
   * `presence` share one, but not with a token or a ticket, as their users may differ: then name the user here. `false` shares
   * nothing, nor does a tab that gives a cursor.
   */
  share?: boolean | string;
  /** Longest wait for the first byte of a stream, in milliseconds, before the next transport is tried. */
  firstByte?: number;
  /** Longest silence of a stream, in milliseconds. Must exceed two heartbeats of the server. */
  silence?: number;
  /**
   * Asks who is online of the ids that these ids subscribe to. The server must know that (`--presence`), otherwise it
   * refuses. Over polls it is told with each answer only.
   */
  presence?: boolean;
  /**
   * Called with the ids that are online: with the change when one has come or gone, and without one when all were told
   * anew, which may happen at any time.
   */
  onpresence?(online: ReadonlySet<string | number>, change?: Change): void;
  /** Called with each event. An event that arrives again after a reconnect is dropped. */
  onevent?(event: EnckeEvent): void;
  /** Called when events may be missing. */
  onreset?(reset: Reset): void;
  /** Called when events were dropped. */
  ongap?(gap: Gap): void;
  /** Called when the token has expired or was revoked. A new one is asked for. */
  onexpired?(notice: { reason: 'expired' | 'revoked' }): void;
  /** Called when the state changes: with the transport when it is `live`, with the reason when it is not. */
  onstate?(state: State, detail?: Transport | Error): void;
}

/** Client of a server. */
export interface Client {
  readonly state: State;
  /** Cursor to come back with later, `''` before there is one. */
  readonly cursor: string;
  /** Ids that were online when that was told last. While there is no stream it stays as it was. */
  readonly online: ReadonlySet<string | number>;
  /**
   * Publishes an event, if the server (`--client-publish`) and the token (`encke.publish`) allow it. Gives the id of the
   * event, or fails with the reason: then the event is not published, unless the reason says that this is not known. It
   * needs `transports: ['websocket']`, `share: false`, and the state `live`.
   */
  publish(event: NewEvent): Promise<string>;
  /** Ends the connection. Another tab that shares it goes on. */
  close(): void;
}

/** Connects, and stays connected until the client is closed or the server refuses it. */
export function connect(options: Options): Client;
