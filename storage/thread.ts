import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { expose } from "comlink";
import nodeEndpoint from "comlink/dist/esm/node-adapter.mjs";
import { SvcError } from "../bus/errors.ts";
import type { StoreConfig } from "./store/config.ts";
import { type Answer, type Request, RequestReader, request } from "./store/requests.ts";
import type { Row } from "./store/statements.ts";
import type { WriteOp } from "./store/store.ts";
import type { WriteOutcome, Writer } from "./store/writer.ts";

// The store thread: the only one that writes. On SQLite it commits what waits in groups; on Postgres it owns the process's
// connections. Commits stall now and then, and here they stall nobody else.

/** What the main thread asks of the store thread. */
export interface StoreControl {
  /** Serves a thread's `StorePort` at the other end. */
  attach(port: MessagePort): void;
  /** Why the store does not work, in words for the log; null while it works. */
  failure(): string | null;
  /** Calls back with that when the store stops working, and with null when it works again. */
  onHealth(callback: (failure: string | null) => void): void;
  /** Calls back with the cause of every internal_error, which does not travel with the refusal. */
  onDefect(callback: (cause: string) => void): void;
  /** Finishes what was asked and closes the database; what is asked later is refused. */
  close(): Promise<void>;
}

/** Batches in one commit; more wait for the next, so that the first is not kept waiting for the last. */
const groupMax = 256;
/**
 * Between the commits of a busy store: each costs a flush and as much processor time as thirty inserts, and batches that come
 * meanwhile share the next. A store with one or two writers commits at once.
 */
const paceMs = 2;
const busyGroup = 3;
/** Between two words about the store's health: on a disk that is nearly full, every other batch may fail. */
const healthMs = 5_000;

interface Waiting {
  readonly port: MessagePort;
  readonly id: number;
  readonly ops: readonly WriteOp[];
}

/** Serves the store's ports with a writer: groups what waits into commits and answers after each. */
export function serveStore(writer: Writer): StoreControl {
  const queue: Waiting[] = [];
  const answers = new Map<MessagePort, Answer[]>();
  const ports = new Set<MessagePort>();
  let writing = false;
  let lastGroup = 0;
  let lastWriteAt = 0;
  let answering = false;
  let closed = false;
  let tellHealth: ((failure: string | null) => void) | null = null;
  let tellDefect: ((cause: string) => void) | null = null;
  let toldFailing = false;
  let healthPaused = false;

  function scheduleWrite(): void {
    if (writing) return;
    writing = true;
    const write = (): void => {
      writing = false;
      writeNext();
    };
    const early = writer.groups && lastGroup >= busyGroup && Date.now() - lastWriteAt < paceMs;
    if (early) setTimeout(write, paceMs);
    // Requests of other threads that have arrived meanwhile are read before this runs, and join the group.
    else setImmediate(write);
  }

  function writeNext(): void {
    const group = queue.splice(0, groupMax);
    if (queue.length > 0) scheduleWrite();
    if (group.length === 0) return;
    lastGroup = group.length;
    lastWriteAt = Date.now();
    writer.write(
      group.map(({ ops }) => ops),
      (index, { rows, error }: WriteOutcome) => {
        const { port, id } = group[index] as Waiting;
        if (error) refuse(port, id, error);
        else answer(port, [id, rows, null]);
      },
    );
    sendAnswers();
  }

  /** Answers of one turn of the event loop travel together. */
  function answer(port: MessagePort, message: Answer): void {
    const list = answers.get(port);
    if (list) list.push(message);
    else answers.set(port, [message]);
    if (answering) return;
    answering = true;
    setImmediate(sendAnswers);
  }

  function refuse(port: MessagePort, id: number, error: SvcError): void {
    if (error.code === "internal_error") tellDefect?.(String(error.cause ?? error));
    answer(port, [id, null, error.toWire()]);
  }

  function sendAnswers(): void {
    answering = false;
    for (const [port, list] of answers) port.postMessage(list);
    answers.clear();
    noteHealth();
  }

  function noteHealth(): void {
    const failure = writer.failure();
    if (toldFailing === (failure !== null) || healthPaused || tellHealth === null) return;
    toldFailing = failure !== null;
    tellHealth(failure);
    healthPaused = true;
    setTimeout(() => {
      healthPaused = false;
      noteHealth();
    }, healthMs).unref();
  }

  async function answerWith(port: MessagePort, id: number, work: Promise<Row[]>): Promise<void> {
    try {
      answer(port, [id, await work, null]);
    } catch (error) {
      refuse(port, id, SvcError.from(error));
    }
  }

  function take(port: MessagePort, requests: RequestReader, message: Request): void {
    if (message[0] === request.learn) {
      requests.learn(message);
      return;
    }
    const id = message[1] as number;
    if (closed) refuse(port, id, new SvcError("storage_unavailable"));
    else if (message[0] === request.write) queue.push({ port, id, ops: requests.ops(message) });
    else if (message[0] === request.read) {
      const { statement, params, answerMs } = requests.asked(message);
      void answerWith(port, id, writer.read(statement, params, answerMs));
    } else
      void answerWith(
        port,
        id,
        writer.check().then(() => []),
      );
  }

  return {
    attach(port) {
      ports.add(port);
      port.once("close", () => ports.delete(port));
      const requests = new RequestReader();
      port.on("message", (messages: readonly Request[]) => {
        for (const message of messages) take(port, requests, message);
        if (queue.length > 0) scheduleWrite();
      });
    },
    failure: () => writer.failure(),
    onHealth(callback) {
      tellHealth = callback;
      noteHealth();
    },
    onDefect(callback) {
      tellDefect = callback;
    },
    async close() {
      closed = true;
      while (queue.length > 0) writeNext();
      await writer.close();
      sendAnswers();
      for (const port of ports) port.close();
    },
  };
}

/** Opens the engine that is configured; the other one's driver is not even loaded. */
async function openWriter(config: StoreConfig): Promise<Writer> {
  if (config.engine === "sqlite") {
    const { openSqliteWriter } = await import("./sqlite/writer.ts");
    return openSqliteWriter(config);
  }
  const { openPostgresWriter } = await import("./postgres/writer.ts");
  // With node:crypto behind it, for which this thread has no other use.
  const { systemEnv } = await import("../bus/env.ts");
  return openPostgresWriter(config.postgres, systemEnv(), (error) => {
    // Ends this thread, and with it the process: nothing may be written any more.
    setImmediate(() => {
      throw error;
    });
  });
}

if (parentPort) expose(serveStore(await openWriter(workerData as StoreConfig)), nodeEndpoint(parentPort));
