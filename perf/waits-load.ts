import { connect, type Socket } from "node:net";

// Streams whose turn waits for a client tool call.

/** A stream that waits for its client. */
export interface WaitingStream {
  readonly thread: string;
  readonly callId: string;
  /** Resolves with the arrival time of the tool result, on this process's clock; null if the stream ended without one. */
  readonly resumed: Promise<number | null>;
  readonly ended: Promise<void>;
  close(): void;
}

const readBuffer = Buffer.allocUnsafe(64 * 1024);
const asked = /"event":"tool_request".*?"id":"([^"]+)"/;

/** Opens one stream and resolves when its turn requests the call. Rejects if the stream ends or times out before. */
export function openWaiting(
  {
    port,
    head,
    manifest,
    resumedBy,
  }: { readonly port: number; readonly head: string; readonly manifest: string; readonly resumedBy: string },
  thread: string,
  timeoutMs: number,
): Promise<WaitingStream> {
  const body = JSON.stringify({ manifest, thread_id: thread, messages: [{ role: "user", content: "Go." }] });
  const request = `POST /chat/stream HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n${head}content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
  const resumed = Promise.withResolvers<number | null>();
  const ended = Promise.withResolvers<void>();
  return new Promise((resolve, reject) => {
    let text = "";
    let phase: "opening" | "waiting" | "resumed" = "opening";
    const timeout = setTimeout(() => socket.destroy(), timeoutMs);
    const callback = (length: number): boolean => {
      text += readBuffer.toString("latin1", 0, length);
      const id = phase === "opening" ? asked.exec(text)?.[1] : undefined;
      if (id !== undefined) {
        phase = "waiting";
        text = "";
        clearTimeout(timeout);
        resolve({ thread, callId: id, resumed: resumed.promise, ended: ended.promise, close: () => socket.destroy() });
      } else if (phase === "waiting" && text.includes(resumedBy)) {
        phase = "resumed";
        resumed.resolve(performance.now());
      }
      if (phase === "resumed") {
        if (text.includes("data: [DONE]")) socket.destroy();
        text = text.slice(-20);
      }
      return true;
    };
    const socket: Socket = connect({
      port,
      host: "127.0.0.1",
      noDelay: true,
      onread: { buffer: readBuffer, callback },
    });
    socket.on("connect", () => socket.write(request));
    // Each error is followed by `close`, which handles it.
    socket.on("error", () => {});
    socket.on("close", () => {
      clearTimeout(timeout);
      reject(new Error(`a stream ended before it was asked: ${text.slice(0, 200)}`));
      resumed.resolve(null);
      ended.resolve();
    });
  });
}
