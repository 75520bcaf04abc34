import { connect, type Socket } from "node:net";
import { type CrowdJob, type CrowdResult, threadId } from "./protocol.ts";

/** Max concurrent connection attempts, below the size of any listen queue. */
const openingMax = 256;

const readBuffer = Buffer.allocUnsafe(256 * 1024);

/** Opens the job's streams as fast as possible. Resolves when each has received its snapshot or timed out. */
export async function runCrowd(job: CrowdJob): Promise<CrowdResult> {
  const headers = Object.entries(job.headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const began = performance.now();
  const sockets: Socket[] = [];
  let next = 0;
  let whole = 0;
  let bytes = 0;
  const openOne = async (): Promise<void> => {
    for (let at = next++; at < job.streams; at = next++) {
      const path = job.path.replace("{thread}", threadId(job.threads.prefix, at % job.threads.count));
      const { socket, connected, settled } = openStream(
        job,
        `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1:${job.port}\r\n${headers.join("")}\r\n`,
        (more) => {
          bytes += more;
        },
      );
      sockets.push(socket);
      all.push(
        settled.then((isWhole) => {
          if (isWhole) whole++;
        }),
      );
      await connected;
    }
  };
  const all: Promise<void>[] = [];
  await Promise.all(Array.from({ length: openingMax }, openOne));
  await Promise.all(all);
  const elapsedMs = performance.now() - began;
  for (const socket of sockets) socket.destroy();
  return { whole, bytes, elapsedMs };
}

function openStream(job: CrowdJob, request: string, onBytes: (bytes: number) => void) {
  const { promise: connected, resolve: onConnected } = Promise.withResolvers<void>();
  const { promise: settled, resolve } = Promise.withResolvers<boolean>();
  let last = 0;
  const callback = (length: number): boolean => {
    onBytes(length);
    const chunk = readBuffer.subarray(0, length);
    // Frames are single lines of JSON, so an empty line ends a frame. Header lines end with CRLF instead.
    if ((last === 10 && chunk[0] === 10) || chunk.includes("\n\n")) resolve(true);
    last = chunk[length - 1] ?? 0;
    return true;
  };
  const socket = connect({
    port: job.port,
    host: "127.0.0.1",
    noDelay: true,
    ...(job.reads && { onread: { buffer: readBuffer, callback } }),
  });
  // A paused socket models a client that does not read.
  if (!job.reads) socket.pause();
  const timeout = setTimeout(() => resolve(false), job.reads ? job.timeoutMs : job.holdMs);
  socket.on("connect", () => {
    socket.write(request);
    onConnected();
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    clearTimeout(timeout);
    onConnected();
    resolve(false);
  });
  return { socket, connected, settled };
}
