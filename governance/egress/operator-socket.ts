import { lookup } from "node:dns";
import type { Socket } from "node:net";
import type { MessageEvent, WebSocket } from "undici";
import type { Env } from "../../bus/env.ts";
import { Connector } from "./connector.ts";
import { EgressError } from "./failure.ts";
import { policyJudge } from "./judge.ts";
import { judgedConnect } from "./judged-connect.ts";
import type { EgressRoute } from "./route.ts";

/** A WebSocket to a server of the operator. */
export interface OperatorSocket {
  send(text: string): void;
  /** Closes the socket at once. `onClose` is not called. */
  close(): void;
}

/** Receives the events of a socket. */
export interface SocketEvents {
  onText(text: string): void;
  /** The socket has closed; called once. */
  onClose(): void;
}

/** The target and the limits of a socket. */
export interface SocketPlace {
  /** A ws or wss URL of the operator's settings. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** A longer message closes the socket. */
  readonly messageBytesMax: number;
}

/** Opens a WebSocket to a URL of the operator. Rejects if it does not open. */
export async function openOperatorSocket(
  { url, headers, messageBytesMax }: SocketPlace,
  route: EgressRoute,
  env: Pick<Env, "timer">,
  events: SocketEvents,
): Promise<OperatorSocket> {
  const { Agent, WebSocket } = await import("undici");
  const connect = judgedConnect(new Connector(policyJudge("operator"), lookup, route), env);
  const sockets: Socket[] = [];
  const dispatcher = new Agent({
    connect: (options, done) =>
      connect(options, (...result) => {
        if (result[1] !== null) sockets.push(result[1]);
        done(...result);
      }),
    webSocket: { maxPayloadSize: messageBytesMax },
  });
  const socket = new WebSocket(url, { dispatcher, headers: { ...headers } });
  let isClosed = false;
  const close = (): void => {
    isClosed = true;
    // A socket of the WebSocket protocol does not belong to the dispatcher any more.
    for (const open of sockets) open.destroy();
    void dispatcher.destroy();
  };
  const end = (): void => {
    if (isClosed) return;
    close();
    events.onClose();
  };
  socket.onmessage = ({ data }: MessageEvent) => {
    if (!isClosed) events.onText(String(data));
  };
  await opened(socket, close);
  socket.onclose = end;
  socket.onerror = end;
  return { send: (text) => socket.send(text), close };
}

function opened(socket: WebSocket, close: () => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (): void => {
      close();
      reject(new EgressError("no_connection", "the browser does not answer"));
    };
    socket.onopen = () => resolve();
    socket.onclose = fail;
    socket.onerror = fail;
  });
}
