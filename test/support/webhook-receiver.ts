import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Cleanup } from "./temp.ts";

// A webhook endpoint that stores its raw requests, and gives scripted answers, also forbidden ones.

/** One request as received. */
export interface ReceivedWebhook {
  readonly at: number;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The bytes as text. */
  readonly body: string;
}

/**
 * The answer to a request. `hang`: never; `reset`: the connection breaks; `junk`: not HTTP; `slow`: 200, and a body
 * that does not end; `flood`: 200, and a body without bounds; `early`: 103s before a 200; `upgrade`: 101.
 */
export type ReceiverAnswer = number | "hang" | "reset" | "junk" | "slow" | "flood" | "early" | "upgrade";

export interface WebhookReceiver {
  readonly url: string;
  readonly received: ReceivedWebhook[];
  /** Connections that are open. */
  readonly connections: () => number;
  /** The answers to later requests, by their number or their path. */
  answer: (index: number, request: ReceivedWebhook) => ReceiverAnswer;
  /** Resolves with the request of this number, counted from 0. */
  nth(index: number): Promise<ReceivedWebhook>;
  close(): Promise<void>;
}

/** The target of a redirecting answer. */
const elsewherePath = "/elsewhere";

/** Starts a receiver that accepts everything. */
export async function webhookReceiver(atEnd: Cleanup): Promise<WebhookReceiver> {
  const received: ReceivedWebhook[] = [];
  const waiting: { index: number; resolve: (request: ReceivedWebhook) => void }[] = [];
  const sockets = new Set<{ destroy(): void }>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("error", () => {});
    response.on("error", () => {});
    request.on("end", () => {
      const took = taken(request, Buffer.concat(chunks).toString("utf8"));
      received.push(took);
      respond(request, response, receiver.answer(received.length - 1, took));
      for (const each of waiting)
        if (each.index < received.length) each.resolve(received[each.index] as ReceivedWebhook);
    });
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = (): Promise<void> =>
    new Promise((resolve) => {
      for (const socket of sockets) socket.destroy();
      server.close(() => resolve());
    });
  const receiver: WebhookReceiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    received,
    connections: () => sockets.size,
    answer: () => 200,
    nth: (index) =>
      new Promise((resolve) => {
        const there = received[index];
        if (there) resolve(there);
        else waiting.push({ index, resolve });
      }),
    close,
  };
  atEnd.after(close);
  return receiver;
}

function taken(request: IncomingMessage, body: string): ReceivedWebhook {
  return {
    at: Date.now(),
    method: request.method ?? "",
    path: request.url ?? "",
    headers: request.headers as Record<string, string>,
    body,
  };
}

function respond(request: IncomingMessage, response: ServerResponse, answer: ReceiverAnswer): void {
  const { socket } = request;
  if (answer === "hang") return;
  if (answer === "reset") socket.resetAndDestroy();
  else if (answer === "junk") socket.end("SSH-2.0-OpenSSH_9.6\r\n\r\n");
  else if (answer === "upgrade") {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
  } else if (answer === "early") {
    for (let hint = 0; hint < 3; hint++) response.writeEarlyHints({ link: "</style.css>; rel=preload" });
    response.end("taken");
  } else if (answer === "slow") {
    response.writeHead(200).write("t");
  } else if (answer === "flood") {
    response.writeHead(200);
    const pour = (): void => {
      while (!response.destroyed && response.write("x".repeat(65_536)));
    };
    response.on("drain", pour);
    pour();
  } else {
    const isRedirect = answer >= 300 && answer < 400;
    response.writeHead(answer, isRedirect ? { location: elsewherePath } : {});
    response.end(answer === 200 ? "}{ this is no JSON" : "");
  }
}
