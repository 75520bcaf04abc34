import { connect, createServer, type Socket } from "node:net";
import type { Cleanup } from "./temp.ts";

/** A proxy to the database that can be disturbed. */
export interface TcpProxy {
  /** The database's URL through the proxy. */
  url(target: string): string;
  /** Cuts every connection, on both sides, and refuses new ones until `restore`. */
  cut(): void;
  restore(): void;
  /** Cuts the client's side of every connection; the server does not notice. */
  abandon(): void;
  /** Stops all traffic of the present connections, without closing them. New ones work. */
  swallow(): void;
  /** The same for new connections until `restore`, too: they are accepted and get nothing more. */
  hush(): void;
  /** The number of connections so far. */
  connections(): number;
  /** New connections after the first `count` are accepted and get nothing more. */
  hushAfter(count: number): void;
  /** A connection that sends this text is silent from then on, until `restore`. */
  swallowWith(text: string): void;
  /** The next answer of the server on any connection is lost, and the connection with it. */
  loseNextAnswer(): void;
  /** The number of changes of direction since the last call: one for a request, one for its answer. */
  turns(): number;
}

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  silent: boolean;
}

export async function tcpProxy(targetUrl: string, atEnd: Cleanup): Promise<TcpProxy> {
  const target = new URL(targetUrl);
  const pairs = new Set<Pair>();
  const abandoned = new Set<Socket>();
  let refusing = false;
  let hushed = false;
  let hushedAfter = Number.POSITIVE_INFINITY;
  let connections = 0;
  let losing = false;
  let swallowed = "";
  let direction = "";
  let turns = 0;

  function count(now: "out" | "in"): void {
    if (direction !== now) turns++;
    direction = now;
  }

  const listener = createServer((client) => {
    if (refusing) {
      client.destroy();
      return;
    }
    const server = connect(Number(target.port || 5432), target.hostname);
    const pair: Pair = { client, server, silent: hushed || connections >= hushedAfter };
    connections++;
    pairs.add(pair);
    client.on("data", (chunk) => {
      count("out");
      if (swallowed !== "" && chunk.includes(swallowed)) pair.silent = true;
      if (!pair.silent) server.write(chunk);
    });
    server.on("data", (chunk) => {
      count("in");
      if (losing) {
        losing = false;
        client.destroy();
        server.destroy();
      } else if (!pair.silent) client.write(chunk);
    });
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      socket.setNoDelay(true);
      socket.on("error", () => {});
      socket.on("close", () => {
        pairs.delete(pair);
        if (!abandoned.has(other)) other.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address() as { port: number };

  function cut(): void {
    refusing = true;
    for (const { client, server } of pairs) {
      client.destroy();
      server.destroy();
    }
  }
  atEnd.after(() => {
    cut();
    for (const socket of abandoned) socket.destroy();
    listener.close();
  });

  return {
    url(url) {
      const changed = new URL(url);
      changed.hostname = "127.0.0.1";
      changed.port = String(port);
      return changed.href;
    },
    cut,
    restore() {
      refusing = false;
      hushed = false;
      hushedAfter = Number.POSITIVE_INFINITY;
      swallowed = "";
    },
    abandon() {
      for (const { client, server } of pairs) {
        abandoned.add(server);
        client.destroy();
      }
    },
    swallow() {
      for (const pair of pairs) pair.silent = true;
    },
    hush() {
      hushed = true;
      for (const pair of pairs) pair.silent = true;
    },
    connections: () => connections,
    hushAfter(count) {
      hushedAfter = count;
    },
    swallowWith(text) {
      swallowed = text;
    },
    loseNextAnswer() {
      losing = true;
    },
    turns() {
      const since = turns;
      turns = 0;
      direction = "";
      return since;
    },
  };
}
