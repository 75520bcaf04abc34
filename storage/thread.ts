import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { expose } from "comlink";
import nodeEndpoint from "comlink/dist/esm/node-adapter.mjs";
import { SvcError } from "../bus/errors.ts";
import type { StoreConfig } from "./config.ts";
import { type Answer, type Request, request } from "./port.ts";
import { openPostgresWriter } from "./postgres/writer.ts";
import { openSqliteWriter } from "./sqlite/writer.ts";
import type { Param, Row } from "./statements.ts";
import "./tables.ts";
import type { WriteOutcome, Writer } from "./writer.ts";

// The store thread: the only one that writes. On SQLite it commits what waits in groups; on Postgres it owns the process's
// connections. Commits stall now and then, and here they stall nobody else.

/** What the main thread asks of the store thread. */
export interface StoreControl {
  attach(port: MessagePort): void;
  close(): Promise<void>;
}

/** Batches in one commit; more wait for the next, so that the first is not kept waiting for the last. */
const groupMax = 256;

interface Waiting {
  readonly port: MessagePort;
  readonly batch: Request;
}

export function serveStore(writer: Writer): StoreControl {
  const queue: Waiting[] = [];
  let scheduled = false;

  function schedule(): void {
    if (scheduled) return;
    scheduled = true;
    // Requests of other threads that have arrived meanwhile are read before this runs, and join the group.
    setImmediate(() => void commitNext());
  }

  async function commitNext(): Promise<void> {
    scheduled = false;
    const group = queue.splice(0, groupMax);
    if (group.length === 0) return;
    if (queue.length > 0) schedule();
    const outcomes = await writer.write(group.map((waiting) => waiting.batch));
    const answers = new Map<MessagePort, Answer[]>();
    for (let i = 0; i < group.length; i++) {
      const { port, batch } = group[i] as Waiting;
      const outcome = outcomes[i] as WriteOutcome;
      const answer: Answer = [batch[1] as number, outcome.rows, outcome.error ? outcome.error.toWire() : null];
      const list = answers.get(port);
      if (list) list.push(answer);
      else answers.set(port, [answer]);
    }
    for (const [port, list] of answers) port.postMessage(list);
  }

  async function answer(port: MessagePort, id: number, work: Promise<Row[]>): Promise<void> {
    try {
      port.postMessage([[id, await work, null] satisfies Answer]);
    } catch (error) {
      const refusal = error instanceof SvcError ? error : new SvcError("storage_unavailable", {}, { cause: error });
      port.postMessage([[id, null, refusal.toWire()] satisfies Answer]);
    }
  }

  return {
    attach(port) {
      port.on("message", (requests: readonly Request[]) => {
        for (const message of requests) {
          const id = message[1] as number;
          if (message[0] === request.write) queue.push({ port, batch: message });
          else if (message[0] === request.read)
            void answer(port, id, writer.read(message[2] as string, message[3] as Param[]));
          else void answer(port, id, writer.check().then(() => []));
        }
        if (queue.length > 0) schedule();
      });
    },
    async close() {
      while (queue.length > 0) await commitNext();
      await writer.close();
    },
  };
}

if (parentPort) {
  const config = workerData as StoreConfig;
  const writer =
    config.engine === "sqlite" ? openSqliteWriter(config.path) : await openPostgresWriter(config.postgres);
  expose(serveStore(writer), nodeEndpoint(parentPort));
}
