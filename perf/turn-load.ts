import { connect, type Socket } from "node:net";
import { AnswerReader, dialects } from "./answer-reader.ts";
import type { Point } from "./first-word-points.ts";
import { Histogram } from "./histogram.ts";
import { Marks } from "./marks.ts";
import { readCpuMs } from "./process-stats.ts";
import { type TurnJob, type TurnResult, threadId } from "./protocol.ts";

/** Max errors before the job stops. */
const errorsMax = 1000;
/** Max time to connect all streams; later ones connect in their first turn. */
const connectMs = 15_000;
const readBytes = 256 * 1024;

/** One buffer serves all sockets: each read is consumed before the next one begins. */
const readBuffer = Buffer.allocUnsafe(readBytes);

/** Runs the turns of a job and resolves when the last one has ended. */
export function runTurns(job: TurnJob): Promise<TurnResult> {
  return new Promise((resolve) => new TurnLoad(job, resolve).start());
}

class TurnLoad {
  readonly job: TurnJob;
  readonly #resolve: (result: TurnResult) => void;
  readonly #streams: Stream[] = [];
  readonly #request: string;
  readonly #marks: Marks | undefined;
  readonly #ttft = new Histogram();
  readonly #turn = new Histogram();
  readonly #errors: Record<string, number> = {};
  readonly #progress: number[] = [];
  #errorCount = 0;
  #begun = 0;
  #ended = 0;
  #active = 0;
  #threads = 0;
  #frames = 0;
  #chars = 0;
  #windowFrom = Number.POSITIVE_INFINITY;
  #windowTo = Number.POSITIVE_INFINITY;
  #windowFromEpochMs = 0;
  #turnsInWindow = 0;
  #framesInWindow = 0;
  #charsInWindow = 0;
  #serverCpuMs = 0;
  #clientCpuMs = 0;
  #ticker: NodeJS.Timeout | undefined;
  #ramp: NodeJS.Timeout | undefined;

  constructor(job: TurnJob, resolve: (result: TurnResult) => void) {
    this.job = job;
    this.#resolve = resolve;
    const headers = Object.entries(job.headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const bodyBytes = Buffer.byteLength(job.body.replaceAll("{thread}", threadId(job.threads.prefix, 0)));
    this.#marks = job.marksDir === undefined ? undefined : new Marks(job.marksDir);
    this.#request =
      `POST ${job.path} HTTP/1.1\r\nhost: 127.0.0.1:${job.port}\r\n${headers.join("")}` +
      `content-type: application/json\r\ncontent-length: ${bodyBytes}\r\n\r\n${job.body}`;
  }

  /** Connects all streams first, so that connecting is not measured. */
  start(): void {
    let waiting = this.job.streams;
    const begin = () => {
      clearTimeout(late);
      waiting = Number.POSITIVE_INFINITY;
      this.#begin();
    };
    const late = setTimeout(begin, connectMs);
    const connected = () => {
      waiting -= 1;
      if (waiting === 0) begin();
    };
    for (let number = 0; number < this.job.streams; number += 1) {
      const stream = new Stream(this, number);
      this.#streams.push(stream);
      stream.connect(connected);
    }
  }

  #begin(): void {
    const { rampMs, streams } = this.job;
    const began = performance.now();
    this.#active = streams;
    this.#ticker = setInterval(() => this.#tick(), 1000);
    if (rampMs === 0) {
      this.#openWindow();
      for (const stream of this.#streams) stream.next();
      return;
    }
    let next = 0;
    this.#ramp = setInterval(() => {
      const due = Math.min(streams, Math.ceil(((performance.now() - began) / rampMs) * streams));
      for (; next < due; next += 1) this.#streams[next]?.next();
      if (performance.now() - began < rampMs) return;
      clearInterval(this.#ramp);
      if (this.#active > 0) this.#openWindow();
    }, 1);
  }

  #openWindow(): void {
    this.#windowFrom = performance.now();
    this.#windowFromEpochMs = Date.now();
    this.#turnsInWindow = -this.#ended;
    this.#framesInWindow = -this.#frames;
    this.#charsInWindow = -this.#chars;
    this.#serverCpuMs = -readCpuMs(this.job.serverPids);
    this.#clientCpuMs = -ownCpuMs();
  }

  #closeWindow(): void {
    this.#windowTo = performance.now();
    this.#turnsInWindow += this.#ended;
    this.#framesInWindow += this.#frames;
    this.#charsInWindow += this.#chars;
    this.#serverCpuMs += readCpuMs(this.job.serverPids);
    this.#clientCpuMs += ownCpuMs();
  }

  /** Returns the next request; undefined if the job is over. */
  nextRequest(stream: number, turn: number): { readonly thread: string; readonly bytes: string } | undefined {
    const open = this.#windowFrom !== Number.POSITIVE_INFINITY;
    const timeUp = open && performance.now() - this.#windowFrom > this.job.secondsMax * 1000;
    if (this.#begun >= this.job.turnsMax || timeUp || this.#errorCount >= errorsMax) {
      if (open && this.#windowTo === Number.POSITIVE_INFINITY) this.#closeWindow();
      return undefined;
    }
    if (open) this.#begun += 1;
    const { prefix, count } = this.job.threads;
    // With a fixed set of threads, each stream has its own subset, so that no two turns run on one thread.
    const share = count === undefined ? 0 : Math.ceil((count - stream) / this.job.streams);
    const number = count === undefined ? this.#threads++ : stream + (turn % share) * this.job.streams;
    const thread = threadId(prefix, number);
    return { thread, bytes: this.#request.replaceAll("{thread}", thread) };
  }

  /** Notes a point of a turn in the measured window. */
  mark(thread: string, point: Point): void {
    if (this.#windowFrom !== Number.POSITIVE_INFINITY) this.#marks?.note(thread, point);
  }

  received(frames: number, chars: number): void {
    this.#frames += frames;
    this.#chars += chars;
  }

  ended(problem: string | undefined, startedMs: number, firstMs: number): void {
    if (problem !== undefined) {
      this.#errors[problem] = (this.#errors[problem] ?? 0) + 1;
      this.#errorCount += 1;
      return;
    }
    this.#ended += 1;
    if (startedMs < this.#windowFrom || startedMs >= this.#windowTo) return;
    this.#ttft.recordMs(firstMs - startedMs);
    this.#turn.recordMs(performance.now() - startedMs);
  }

  /** Called by a stream that has no more requests to send. */
  finished(): void {
    this.#active -= 1;
    if (this.#active > 0) return;
    clearInterval(this.#ticker);
    clearInterval(this.#ramp);
    if (this.#windowFrom === Number.POSITIVE_INFINITY) this.#openWindow();
    if (this.#windowTo === Number.POSITIVE_INFINITY) this.#closeWindow();
    this.#progress.push(Date.now(), this.#ended);
    for (const stream of this.#streams) stream.close();
    this.#marks?.close();
    const windowMs = this.#windowTo - this.#windowFrom;
    this.#resolve({
      windowMs,
      turns: this.#turnsInWindow,
      frames: this.#framesInWindow,
      tokenChars: this.#charsInWindow,
      serverCpuMs: this.#serverCpuMs,
      clientCpuMs: this.#clientCpuMs,
      ttft: this.#ttft.toData(),
      turn: this.#turn.toData(),
      errors: this.#errors,
      turnsWithRamp: this.#ended,
      progress: this.#progress,
      windowFromEpochMs: this.#windowFromEpochMs,
      windowToEpochMs: this.#windowFromEpochMs + windowMs,
    });
  }

  #tick(): void {
    this.#progress.push(Date.now(), this.#ended);
    const late = performance.now() - this.job.turnTimeoutMs;
    for (const stream of this.#streams) if (stream.startedMs < late) stream.giveUp("timeout");
  }
}

/** A connection that runs one turn at a time. */
class Stream {
  readonly #load: TurnLoad;
  readonly #number: number;
  readonly #reader: AnswerReader;
  #socket: Socket | undefined;
  #turn = 0;
  #thread = "";
  #firstMs = 0;
  /** Infinity without a running turn. */
  startedMs = Number.POSITIVE_INFINITY;

  constructor(load: TurnLoad, number: number) {
    this.#load = load;
    this.#number = number;
    this.#reader = new AnswerReader(dialects[load.job.dialect], load.job.expected);
  }

  connect(settled: () => void): Socket {
    const onread = { buffer: readBuffer, callback: (bytes: number) => this.#read(bytes) };
    const socket = connect({ port: this.#load.job.port, host: "127.0.0.1", noDelay: true, onread });
    this.#socket = socket;
    const once = () => {
      socket.off("connect", once).off("close", once);
      settled();
    };
    socket.on("connect", once).on("close", once);
    // Each error is followed by `close`, which handles it.
    socket.on("error", () => {});
    socket.on("close", () => {
      if (this.#socket === socket) this.giveUp("connection closed");
    });
    return socket;
  }

  next(): void {
    const request = this.#load.nextRequest(this.#number, this.#turn);
    if (request === undefined) {
      this.startedMs = Number.POSITIVE_INFINITY;
      this.#load.finished();
      return;
    }
    this.#turn += 1;
    this.#thread = request.thread;
    this.#firstMs = 0;
    this.#reader.reset();
    this.startedMs = performance.now();
    // A connecting socket buffers writes.
    const socket = this.#socket ?? this.connect(() => {});
    this.#load.mark(request.thread, "sent");
    socket.write(request.bytes, "latin1");
  }

  /** Ends the running turn, if there is one, and continues with a new connection. */
  giveUp(problem: string): void {
    const running = this.startedMs !== Number.POSITIVE_INFINITY;
    this.startedMs = Number.POSITIVE_INFINITY;
    this.close();
    if (!running) return;
    this.#load.ended(problem, 0, 0);
    this.next();
  }

  close(): void {
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.destroy();
  }

  #read(bytes: number): boolean {
    const reader = this.#reader;
    const frames = reader.frames;
    const matched = reader.matched;
    reader.feed(readBuffer.toString("latin1", 0, bytes));
    this.#load.received(reader.frames - frames, reader.matched - matched);
    if (this.#firstMs === 0 && reader.matched > 0) {
      this.#firstMs = performance.now();
      this.#load.mark(this.#thread, "received");
    }
    if (reader.over) {
      this.#load.ended(reader.problem, this.startedMs, this.#firstMs);
      if (reader.closing) this.close();
      this.next();
    }
    return true;
  }
}

function ownCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
