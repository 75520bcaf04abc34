import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { expose } from "comlink";
import nodeEndpoint from "comlink/dist/esm/node-adapter.mjs";
import { SvcError } from "../bus/errors.ts";
import type { StoreConfig } from "./store/config.ts";
import { type Answer, type Request, RequestReader, request } from "./store/requests.ts";
import type { Row } from "./store/statements.ts";
import type { WriteOp } from "./store/store.ts";
import type { WriteOutcome, Writer } from "./store/writer.ts";

// The store thread, the only one that writes. On SQLite it commits waiting batches in groups; on Postgres it owns the
// connections of the process. Commits stall at times, which blocks no other thread this way.

/** The interface of the store thread to the main thread. */
export interface StoreControl {
  /** Serves the `StorePort` of a thread at the other end. */
  attach(port: MessagePort): void;
  /** Returns the cause of a failure, in words for the log; null while the store works. */
  failure(): string | null;
  /** Calls back with the cause when the store stops working, and with null when it works again. */
  onHealth(callback: (failure: string | null) => void): void;
  /** Calls back with the cause of every internal_error, which is not sent with the refusal. */
  onDefect(callback: (cause: string) => void): void;
  /** Finishes pending work and closes the database. Later requests are refused. */
  close(): Promise<void>;
}

/** Max batches of one commit, so that the first one does not wait for too many others. */
const groupMax = 256;
/**
 * Pause between the commits of a busy store. A commit costs a flush and the processor time of thirty inserts, so
 * batches that arrive in the pause share the next one. A store with one or two writers commits at once.
 */
const paceMs = 2;
const busyGroup = 3;
/** Min interval between health reports: on a nearly full disk, every other batch may fail. */
const healthMs = 5_000;

interface Waiting {
  readonly port: MessagePort;
  readonly id: number;
  readonly ops: readonly WriteOp[];
}

/** Serves ports with a writer: commits waiting batches in groups and answers after each commit. */
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
    // Runs after the pending messages of other ports are read, so that those join the group.
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

  /** Sends the answers of one event-loop turn together. */
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

/** Opens the configured engine, and loads only its driver. */
async function openWriter(config: StoreConfig): Promise<Writer> {
  if (config.engine === "sqlite") {
    const { openSqliteWriter } = await import("./sqlite/writer.ts");
    return openSqliteWriter(config);
  }
  const { openPostgresWriter } = await import("./postgres/writer.ts");
  // Imported here, because it loads node:crypto, which this thread needs for nothing else.
  const { systemEnv } = await import("../bus/env.ts");
  return openPostgresWriter(config.postgres, systemEnv(), (error) => {
    // Ends this thread, and so the process, because nothing may be written any more.
    setImmediate(() => {
      throw error;
    });
  });
}

if (parentPort) expose(serveStore(await openWriter(workerData as StoreConfig)), nodeEndpoint(parentPort));
