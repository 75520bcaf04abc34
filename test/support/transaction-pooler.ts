import { connect, createServer, type Socket } from "node:net";
import type { Cleanup } from "./temp.ts";

// A pooler in transaction mode, like PgBouncer: many clients share a few server connections, each lent for one
// transaction at a time. State of a session (prepared statements, settings, session locks) stays with the server
// connection, and the next client meets it. It does not track prepared statements.

const startupMessage = 196_608;
const authenticationOk = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0]);
const readyIdle = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]);

interface ServerConnection {
  readonly socket: Socket;
  client: Socket | null;
  rest: Buffer;
}

/**
 * Starts a pooler in front of `targetUrl` with `size` server connections; returns the URL of the database through it.
 */
export async function transactionPooler(targetUrl: string, size: number, atEnd: Cleanup): Promise<string> {
  const target = new URL(targetUrl);
  const servers = await Promise.all(Array.from({ length: size }, () => openServer(target)));
  const waiting: { client: Socket; chunk: Buffer }[] = [];
  const clients = new Set<Socket>();

  for (const server of servers) {
    server.socket.on("data", (chunk: Buffer) => {
      const { client } = server;
      server.rest = Buffer.concat([server.rest, chunk]);
      let over = false;
      while (server.rest.length >= 5 && server.rest.length >= 1 + server.rest.readUInt32BE(1)) {
        const message = server.rest.subarray(0, 1 + server.rest.readUInt32BE(1));
        server.rest = server.rest.subarray(message.length);
        client?.write(message);
        // Ready for a query, and in no transaction: the connection is returned.
        over = message[0] === 0x5a && message[5] === 0x49;
      }
      if (over) {
        server.client = null;
        reserve();
      }
    });
  }

  function reserve(): void {
    for (const server of servers) {
      if (server.client) continue;
      const next = waiting.shift();
      if (!next) return;
      server.client = next.client;
      server.socket.write(next.chunk);
    }
  }

  const listener = createServer((client) => {
    clients.add(client);
    let started = false;
    client.on("error", () => {});
    client.on("close", () => {
      clients.delete(client);
      // The transaction of a client that left is rolled back.
      for (const server of servers) if (server.client === client) server.socket.write(simpleQuery("ROLLBACK"));
    });
    client.on("data", (chunk: Buffer) => {
      if (!started) {
        if (chunk.readUInt32BE(4) !== startupMessage) return void client.write("N");
        started = true;
        client.write(Buffer.concat([authenticationOk, readyIdle]));
        return;
      }
      if (chunk[0] === 0x58) return void client.end();
      const mine = servers.find((server) => server.client === client);
      if (mine) mine.socket.write(chunk);
      else {
        waiting.push({ client, chunk });
        reserve();
      }
    });
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  atEnd.after(() => {
    for (const client of clients) client.destroy();
    for (const { socket } of servers) socket.destroy();
    listener.close();
  });
  const url = new URL(targetUrl);
  url.hostname = "127.0.0.1";
  url.port = String((listener.address() as { port: number }).port);
  return url.href;
}

async function openServer(target: URL): Promise<ServerConnection> {
  const socket = connect(Number(target.port || 5432), target.hostname);
  socket.on("error", () => {});
  const text = `user\0${target.username || "postgres"}\0database\0${target.pathname.slice(1)}\0\0`;
  const startup = Buffer.alloc(8 + Buffer.byteLength(text));
  startup.writeUInt32BE(startup.length, 0);
  startup.writeUInt32BE(startupMessage, 4);
  startup.write(text, 8);
  socket.write(startup);
  // The bytes up to the first "ready" are the server's greeting; tests need no password.
  await new Promise<void>((resolve) => {
    const greet = (chunk: Buffer): void => {
      if (!chunk.subarray(-6).equals(readyIdle)) return;
      socket.off("data", greet);
      resolve();
    };
    socket.on("data", greet);
  });
  return { socket, client: null, rest: Buffer.alloc(0) };
}

function simpleQuery(text: string): Buffer {
  const message = Buffer.alloc(6 + text.length);
  message.write("Q");
  message.writeUInt32BE(5 + text.length, 1);
  message.write(text, 5);
  return message;
}
