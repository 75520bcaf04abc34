import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, Server as NetServer, type Socket } from "node:net";
import { SvcError } from "../../bus/errors.ts";
import { copiedHeaders } from "../exchange/request-head.ts";
import type { Listen } from "./engine.ts";
import { type ConnectionContext, NodeConnection } from "./node-connection.ts";
import { SlowBodies } from "./slow-bodies.ts";

// Node's own server. Its parser refuses requests that uWebSockets.js reads leniently. It works wherever Node works.

/** Max time for a request's head, and for an idle connection, the same as in uWebSockets.js. */
const idleMs = 10_000;
/** Interval of the check for slow heads. */
const lookMs = 1_000;

/** Listens on a port with Node's own server. */
export const listenWithNode: Listen = (options, env, streams, onRequest) => {
  const unanswered = { count: 0 };
  const context: ConnectionContext = {
    env,
    streams,
    slowBodies: new SlowBodies(env),
    unanswered,
    copied: copiedHeaders(options.trustedHeader, options.declaredHeaders),
    onRequest,
  };
  const connections = new Map<Socket, NodeConnection>();
  const server = createServer({
    insecureHTTPParser: false,
    maxHeaderSize: options.headBytesMax,
    headersTimeout: idleMs,
    // SlowBodies limits the time of a body by its rate.
    requestTimeout: 0,
    connectionsCheckingInterval: lookMs,
    keepAliveTimeout: idleMs,
    // `OriginGuard` refuses a request without Host, in the same way as a wrong Host.
    requireHostHeader: false,
  });
  // With its own bound, Node silently drops further headers.
  server.maxHeadersCount = 0;
  // A client that half-closed its connection may still read. Node's HTTP server closes such a connection unless this is set.
  Object.assign(server, { httpAllowHalfOpen: true });

  const ask = (request: IncomingMessage, response: ServerResponse): void =>
    connections.get(request.socket)?.ask(request, response);
  server.on("connection", (socket) => {
    connections.set(socket, new NodeConnection(socket, context));
    socket.on("close", () => connections.delete(socket));
  });
  server.on("request", ask);
  // `100 Continue` is sent only when the handler reads the body.
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
        // Node's `close` of the HTTP server would close idle connections as well.
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
