import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, Server as NetServer, type Socket } from "node:net";
import { SvcError } from "../../bus/errors.ts";
import { copiedHeaders } from "../exchange/request-head.ts";
import type { Listen } from "./engine.ts";
import { type ConnectionContext, NodeConnection } from "./node-connection.ts";
import { SlowBodies } from "./slow-bodies.ts";

// Node's own server, whose parser refuses what uWebSockets.js reads in its own way. It is everywhere where Node is.

/** How long a head may take, and how long a connection may be idle, as uWebSockets.js has it. */
const idleMs = 10_000;
/** How often heads are looked at that take longer. */
const lookMs = 1_000;

/** Listens on a port. */
export const listenWithNode: Listen = (options, env, streams, onRequest) => {
  const unanswered = { count: 0 };
  const context: ConnectionContext = {
    env,
    streams,
    slowBodies: new SlowBodies(env),
    unanswered,
    copied: copiedHeaders(options.trustedHeader),
    onRequest,
  };
  const connections = new Map<Socket, NodeConnection>();
  const server = createServer({
    insecureHTTPParser: false,
    maxHeaderSize: options.headBytesMax,
    headersTimeout: idleMs,
    // What a body may take is up to how it comes: see SlowBodies.
    requestTimeout: 0,
    connectionsCheckingInterval: lookMs,
    keepAliveTimeout: idleMs,
    // One without is refused as one with the wrong one is.
    requireHostHeader: false,
  });
  // Beyond its own bound Node drops headers, and says nothing.
  server.maxHeadersCount = 0;
  // Who has said its last may still listen. Node has it so for sockets, and not for requests.
  Object.assign(server, { httpAllowHalfOpen: true });

  const ask = (request: IncomingMessage, response: ServerResponse): void =>
    connections.get(request.socket)?.ask(request, response);
  server.on("connection", (socket) => {
    connections.set(socket, new NodeConnection(socket, context));
    socket.on("close", () => connections.delete(socket));
  });
  server.on("request", ask);
  // Who waits to be asked for a body is asked when the body is wanted.
  server.on("checkContinue", ask);
  server.on("checkExpectation", ask);
  server.on("connect", (_request, socket) =>
    connections
      .get(socket as Socket)
      ?.refuse(new SvcError("malformed_request", { detail: "there are no tunnels here" })),
  );
  server.on("clientError", (error, socket) => connections.get(socket as Socket)?.fail(error));

  return new Promise((resolve, reject) => {
    server.once("error", (cause) => reject(new Error(`cannot listen on ${options.host}:${options.port}`, { cause })));
    const { host, port, shared } = options;
    server.listen({ host, port, reusePort: shared }, () =>
      resolve({
        port: (server.address() as AddressInfo).port,
        // Node's own `close` would end the connections that are idle as well.
        stopAccepting() {
          context.unanswered = { count: 0 };
          NetServer.prototype.close.call(server);
        },
        unanswered: () => unanswered.count,
        close() {
          server.close();
          for (const connection of connections.values()) connection.close();
        },
      }),
    );
  });
};
