import { syncBuiltinESMExports } from "node:module";
import { fileURLToPath } from "node:url";
import threads, { Worker, type WorkerOptions } from "node:worker_threads";
import { Bus } from "../../bus/bus.ts";
import { decodeBatch, encodeBatch } from "../../bus/codec.ts";
import type { NodeId } from "../../bus/protocol/node-id.ts";
import type { Transport } from "../../bus/transport.ts";

// Loaded before all other modules (see `busInBytes`), it encodes every batch of the bus as bytes: between threads,
// between nodes of a simulation and from a node to itself. Code that relies on references, or on more than plain data,
// then fails. New threads load it as well.

const { connect } = Bus.prototype;
Bus.prototype.connect = function (node: NodeId, transport: Transport): void {
  connect.call(this, node, {
    ...transport,
    post: (batch) => transport.post(decodeBatch(encodeBatch(batch))),
  });
};

class CarryingWorker extends Worker {
  constructor(file: string | URL, options: WorkerOptions = {}) {
    const { execArgv } = options;
    // Threads without the TypeScript loader have no bus.
    super(
      file,
      execArgv ? { ...options, execArgv: [...execArgv, "--import", fileURLToPath(import.meta.url)] } : options,
    );
  }
}
threads.Worker = CarryingWorker;
syncBuiltinESMExports();
