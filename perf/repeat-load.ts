import { connect, type Socket } from "node:net";
import type { RepeatJob, RepeatResult } from "./protocol.ts";

const readBuffer = Buffer.allocUnsafe(64 * 1024);
/** The pause before a new connection after the server has closed one. */
const againMs = 20;

/** Requests that repeat until they are stopped. */
export interface RepeatedRequests {
  stop(): RepeatResult;
}

/** Starts the requests of a job, which repeat in the background. */
export function startRepeating(job: RepeatJob): RepeatedRequests {
  const headers = Object.entries(job.headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const request = Buffer.from(
    `POST ${job.path} HTTP/1.1\r\nhost: 127.0.0.1:${job.port}\r\n${headers.join("")}` +
      `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(job.body)}\r\n\r\n${job.body}`,
  );
  const began = performance.now();
  const answers: Record<string, number> = {};
  const sockets = new Set<Socket>();
  let stopped = false;
  const count = (what: string): void => {
    if (!stopped) answers[what] = (answers[what] ?? 0) + 1;
  };

  function open(): void {
    if (stopped) return;
    let answer = "";
    const callback = (bytes: number): boolean => {
      answer += readBuffer.toString("latin1", 0, bytes);
      const status = wholeAnswer(answer);
      if (status === undefined) return true;
      count(status);
      answer = "";
      if (!stopped) socket.write(request);
      return true;
    };
    const onread = { buffer: readBuffer, callback };
    const socket = connect({ port: job.port, host: "127.0.0.1", noDelay: true, onread });
    sockets.add(socket);
    socket.on("connect", () => socket.write(request));
    // Each error is followed by `close`, which handles it.
    socket.on("error", () => {});
    socket.on("close", () => {
      sockets.delete(socket);
      // A response that precedes the end of the body closes the connection.
      count(answer === "" ? "connection closed" : answer.slice(9, 12));
      setTimeout(open, againMs);
    });
  }

  for (let n = 0; n < job.connections; n += 1) open();
  return {
    stop() {
      stopped = true;
      for (const socket of sockets) socket.destroy();
      return { answers, elapsedMs: performance.now() - began };
    },
  };
}

/** The status of a complete response with a content-length; undefined if it is incomplete. */
function wholeAnswer(answer: string): string | undefined {
  const end = answer.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const length = Number(/\r\ncontent-length: *(\d+)/i.exec(answer.slice(0, end))?.[1] ?? Number.NaN);
  return answer.length >= end + 4 + length ? answer.slice(9, 12) : undefined;
}
