import type { Socket } from "node:net";
import type { buildConnector } from "undici";
import type { Env } from "../../bus/env.ts";
import type { Connector } from "./connector.ts";
import { EgressError } from "./failure.ts";

const connectMs = 10_000;

/** Returns the function with which undici opens its sockets: each goes to a judged address. */
export function judgedConnect(connector: Connector, env: Pick<Env, "timer">): buildConnector.connector {
  return ({ hostname, protocol, port }, done) => {
    const isTls = protocol === "https:";
    const target = {
      origin: `${protocol}//${hostname}:${port}`,
      hostname,
      port: Number(port || (isTls ? 443 : 80)),
      isTls,
    };
    openInTime(connector, target, env, done);
  };
}

/** Opens a socket and passes it on when it is writable; it fails after ten seconds. */
export function openInTime(
  connector: Connector,
  target: Parameters<Connector["open"]>[0],
  env: Pick<Env, "timer">,
  done: (...result: [error: null, socket: Socket] | [error: Error, socket: null]) => void,
): void {
  try {
    const socket = connector.open(target, () => {
      timer.cancel();
      socket.removeListener("error", failed);
      socket.removeListener("close", closed);
      done(null, socket);
    });
    const failed = (error: Error): void => {
      timer.cancel();
      socket.removeListener("close", closed);
      done(error, null);
    };
    const closed = (): void => failed(new EgressError("no_connection", "the connection was closed"));
    const timer = env.timer(connectMs, () => socket.destroy(new EgressError("no_connection", "no connection in time")));
    socket.once("error", failed);
    socket.once("close", closed);
  } catch (error) {
    done(error as Error, null);
  }
}
