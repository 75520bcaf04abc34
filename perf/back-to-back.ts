import { connect, type Socket } from "node:net";
import { Histogram } from "./histogram.ts";
import { threadId } from "./protocol.ts";

// Back-to-back turns on several connections, each read to its end. The load is the same for turns and for durable runs, so that they can be
// compared.

/** The parameters of the load. */
export interface BackToBack {
  readonly port: number;
  /** Header lines of the caller. */
  readonly head: string;
  readonly manifest: string;
  /** The prefix of the thread ids; each turn has its own thread. */
  readonly prefix: string;
  readonly streams: number;
  readonly secondsMax: number;
  readonly turnsMax: number;
}

/** The results of the load. */
export interface BackToBackResult {
  /** Number of turns without an error. */
  readonly turns: number;
  readonly windowMs: number;
  readonly turn: Histogram;
  /** Counts by kind of error. */
  readonly errors: Readonly<Record<string, number>>;
}

const turnTimeoutMs = 60_000;
/** Max errors before the load stops. */
const errorsMax = 100;
const readBytes = 64 * 1024;
const readBuffer = Buffer.allocUnsafe(readBytes);
const end = "data: [DONE]\n\n";
/** Text in the last frame before the end: of a turn, and of a durable run. */
const endings = ['"event":"done"', '"event":"final"'];
/** Max characters kept of a marker that a read has split. */
const tailChars = 64;
/** The boundary between two HTTP chunks; frames never contain this line ending. */
const chunkEnds = /\r\n[0-9a-f]+\r\n/g;

/** Runs turns until the time or the number of turns is used up. */
export async function runBackToBack(load: BackToBack): Promise<BackToBackResult> {
  const turn = new Histogram();
  const errors: Record<string, number> = {};
  let [begun, failed] = [0, 0];
  const from = performance.now();
  const mayBegin = (): boolean =>
    begun < load.turnsMax && failed < errorsMax && performance.now() - from < load.secondsMax * 1000;
  const one = async (): Promise<void> => {
    let connection: Connection | null = null;
    while (mayBegin()) {
      connection ??= new Connection(load.port);
      const startedAt = performance.now();
      const problem = await connection.ask(requestOf(load, begun++));
      if (problem === null) turn.recordMs(performance.now() - startedAt);
      else {
        errors[problem] = (errors[problem] ?? 0) + 1;
        failed++;
        connection.close();
        connection = null;
      }
    }
    connection?.close();
  };
  await Promise.all(Array.from({ length: load.streams }, one));
  return { turns: turn.count, windowMs: performance.now() - from, turn, errors };
}

function requestOf({ port, head, manifest, prefix }: BackToBack, number: number): string {
  const messages = [{ role: "user", content: "Please say the sixty-four tokens, one after the other." }];
  const body = JSON.stringify({ manifest, thread_id: threadId(prefix, number), messages });
  return `POST /chat/stream HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n${head}content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** A connection that sends one request at a time. */
class Connection {
  readonly #socket: Socket;
  #answered: ((problem: string | null) => void) | null = null;
  #tail = "";
  #status = "";
  #isRight = false;
  #isOver = false;

  constructor(port: number) {
    this.#socket = connect({
      port,
      host: "127.0.0.1",
      noDelay: true,
      onread: {
        buffer: readBuffer,
        callback: (length: number) => {
          this.#read(readBuffer.toString("latin1", 0, length));
          return true;
        },
      },
    });
    // Each error is followed by `close`, which handles it.
    this.#socket.on("error", () => {});
    this.#socket.on("close", () => this.#end("connection closed"));
  }

  /** Sends a request and reads the response. Null if the response is correct, or else the kind of error. */
  async ask(request: string): Promise<string | null> {
    const { promise, resolve } = Promise.withResolvers<string | null>();
    [this.#answered, this.#tail, this.#status, this.#isRight, this.#isOver] = [resolve, "", "", false, false];
    const late = setTimeout(() => this.#end("timeout"), turnTimeoutMs);
    this.#socket.write(request);
    const problem = await promise;
    clearTimeout(late);
    return problem;
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(piece: string): void {
    const raw = this.#tail + piece;
    this.#status ||= raw.slice(9, 12);
    const text = raw.replaceAll(chunkEnds, "");
    this.#isRight ||= endings.some((ending) => text.includes(ending));
    this.#isOver ||= text.includes(end);
    this.#tail = raw.slice(-tailChars);
    if (this.#status !== "200") this.#end(`status ${this.#status}`);
    else if (this.#isOver && this.#tail.endsWith("0\r\n\r\n")) this.#end(this.#isRight ? null : "no end");
  }

  #end(problem: string | null): void {
    this.#answered?.(problem);
    this.#answered = null;
  }
}
