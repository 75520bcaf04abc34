import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import type { Env } from "../../../bus/env.ts";
import type { OnOutput, RunningCommand } from "../../../governance/processes/spawner.ts";
import { Lines } from "./lines.ts";

/** Bytes that a server has not read yet. */
const unreadBytesMax = 8 * 1024 * 1024;
/** Bytes of standard output in one window of time. A server that writes more is ended. */
const outputBytesMax = 64 * 1024 * 1024;
const windowMs = 10_000;
/** Characters of standard error that are kept for the log: its last ones. */
const stderrCharsMax = 2_000;

/** Starts the command of a server. */
export type StartCommand = (onOutput: OnOutput) => Promise<RunningCommand>;

/** How a server has ended. */
export interface EndOfServer {
  /** Continues a sentence after the name of the server. */
  readonly why: string;
  /** The end of its standard error. */
  readonly stderr: string;
}

/**
 * The transport to a server that is a process: a message of JSON-RPC in each line of standard input and output. Other lines of standard
 * output are skipped.
 */
export class StdioTransport implements Transport {
  onclose: (() => void) | undefined;
  onerror: ((error: Error) => void) | undefined;
  onmessage: Transport["onmessage"];
  readonly #startCommand: StartCommand;
  /** Called at most once, if the server ends or is ended for its fault. */
  readonly #onEnd: (end: EndOfServer) => void;
  readonly #env: Pick<Env, "monotonic">;
  readonly #lines = new Lines();
  #command: RunningCommand | null = null;
  #unreadBytes = 0;
  #outputBytes = 0;
  #windowEndsAt = 0;
  #stderr = "";
  #isClosed = false;

  constructor(startCommand: StartCommand, env: Pick<Env, "monotonic">, onEnd: (end: EndOfServer) => void) {
    this.#startCommand = startCommand;
    this.#env = env;
    this.#onEnd = onEnd;
  }

  async start(): Promise<void> {
    const command = await this.#startCommand((stream, bytes) => this.#take(stream, bytes));
    this.#command = command;
    // Closed while it started.
    if (this.#isClosed) command.kill();
    void command.exit.then(({ code, signal, failure }) => {
      const ended = failure ?? (signal === null ? `code ${code}` : signal);
      this.#report(endings[ended] ?? `has ended with ${ended}`);
      this.#close();
    });
  }

  /** Resolves when the server's pipe has taken the message. Rejects if the server does not read. */
  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#command === null || this.#isClosed) throw new Error("the server has ended");
    const bytes = Buffer.from(`${JSON.stringify(message)}\n`);
    if (this.#unreadBytes + bytes.length > unreadBytesMax) throw new Error("the server does not read its input");
    this.#unreadBytes += bytes.length;
    await this.#command.write(bytes);
    this.#unreadBytes -= bytes.length;
  }

  /** Ends the server, by force if it does not end. */
  async close(): Promise<void> {
    this.#command?.kill();
    this.#close();
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.onclose?.();
  }

  #take(stream: "stdout" | "stderr", bytes: Buffer): void {
    if (this.#isClosed) return;
    if (stream === "stderr") {
      this.#stderr = (this.#stderr + bytes.toString("utf8")).slice(-stderrCharsMax);
      return;
    }
    const now = this.#env.monotonic();
    if (now >= this.#windowEndsAt) {
      this.#windowEndsAt = now + windowMs;
      this.#outputBytes = 0;
    }
    this.#outputBytes += bytes.length;
    const lines = this.#lines.take(bytes);
    if (lines === null) this.#end("has written a line that is too long");
    else if (this.#outputBytes > outputBytesMax) this.#end("writes too much");
    for (const line of lines ?? []) this.#receive(line);
  }

  #receive(line: string): void {
    const message = messageIn(line);
    if (message === null || this.#isClosed) return;
    this.onmessage?.(message);
  }

  #end(fault: string): void {
    this.#report(fault);
    void this.close();
  }

  /** Reports the end of the server, unless svc has closed it. */
  #report(why: string): void {
    if (this.#isClosed) return;
    this.#onEnd({ why, stderr: this.#stderr });
  }
}

const endings: Readonly<Partial<Record<string, string>>> = {
  not_found: "cannot start: its program is not installed",
  // The exit of the program that sets the limits.
  "code 127": "cannot start: its program is not installed",
  not_started: "cannot start",
  too_many_processes: "has started too many processes",
  lost: "was lost with the process that watches it",
};

/** Returns the message of a line; null for other text. */
function messageIn(line: string): JSONRPCMessage | null {
  if (!line.startsWith("{")) return null;
  try {
    const message = JSON.parse(line) as JSONRPCMessage;
    return message.jsonrpc === "2.0" ? message : null;
  } catch {
    return null;
  }
}
