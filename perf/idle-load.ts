import { connect, type Socket } from "node:net";
import { type IdleJob, type IdleResult, threadId } from "./protocol.ts";

/** Max concurrent connection attempts, below the size of any listen queue. */
const openingMax = 128;

const readBuffer = Buffer.allocUnsafe(64 * 1024);

/** Open streams, until `close`. */
export interface IdleStreams {
  readonly result: IdleResult;
  close(): Promise<void>;
}

/** Opens the job's streams. Resolves when each has received its first frame or failed. */
export function openStreams(job: IdleJob): Promise<IdleStreams> {
  const headers = Object.entries(job.headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const began = performance.now();
  const open = new Set<Socket>();
  const errors: Record<string, number> = {};
  let next = 0;
  let settled = 0;

  return new Promise((resolve) => {
    const settle = (problem: string | undefined) => {
      if (problem !== undefined) errors[problem] = (errors[problem] ?? 0) + 1;
      settled += 1;
      if (settled === job.streams) {
        const result = { open: open.size, errors, elapsedMs: performance.now() - began };
        resolve({ result, close: () => closeAll(open) });
      } else if (next < job.streams) openNext();
    };
    const openNext = () => {
      const id = threadId(job.threads.prefix, next % job.threads.count);
      const path = job.path.replace("{thread}", id);
      next += 1;
      openStream(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1:${job.port}\r\n${headers.join("")}\r\n`, job, open, settle);
    };
    for (let n = 0; n < Math.min(openingMax, job.streams); n += 1) openNext();
  });
}

function openStream(
  request: string,
  job: IdleJob,
  open: Set<Socket>,
  settle: (problem: string | undefined) => void,
): void {
  let head = "";
  let waiting = true;
  const once = (problem: string | undefined) => {
    if (!waiting) return;
    waiting = false;
    head = "";
    clearTimeout(timeout);
    if (problem === undefined) open.add(socket);
    else socket.destroy();
    settle(problem);
  };
  const callback = (bytes: number) => {
    if (!waiting) return true;
    head += readBuffer.toString("latin1", 0, bytes);
    const status = head.slice(9, 12);
    if (status.length === 3 && status !== "200") once(`status ${status}`);
    // The first frame is complete at the first empty line after the one that ends the head.
    else if (/\r\n\r\n[\s\S]*\n\n/.test(head)) once(undefined);
    return true;
  };
  const socket = connect({
    port: job.port,
    host: "127.0.0.1",
    noDelay: true,
    onread: { buffer: readBuffer, callback },
  });
  const timeout = setTimeout(() => once("timeout"), job.timeoutMs);
  socket.on("connect", () => socket.write(request));
  // Each error is followed by `close`, which handles it.
  socket.on("error", () => {});
  socket.on("close", () => {
    open.delete(socket);
    once("connection closed");
  });
}

function closeAll(open: ReadonlySet<Socket>): Promise<void> {
  const closing = [...open].map((socket) => new Promise<void>((closed) => socket.once("close", () => closed())));
  for (const socket of open) socket.destroy();
  return Promise.all(closing).then(() => undefined);
}
