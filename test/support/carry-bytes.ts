import { syncBuiltinESMExports } from "node:module";
import { fileURLToPath } from "node:url";
import threads, { Worker, type WorkerOptions } from "node:worker_threads";
import { Bus } from "../../bus/bus.ts";
import { decodeBatch, encodeBatch } from "../../bus/codec.ts";
import type { NodeId } from "../../bus/protocol/node-id.ts";
import type { Transport } from "../../bus/transport.ts";

// Loaded before anything else (see `busInBytes`), has every batch of the bus cross as bytes: between threads, between nodes of a
// simulation and from a node to itself. What relies on being handed over as it is, or on more than plain data, fails then. Threads
// that are started load it as well.

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
    // Those that are not told how to load TypeScript have no bus.
    super(
      file,
      execArgv ? { ...options, execArgv: [...execArgv, "--import", fileURLToPath(import.meta.url)] } : options,
    );
  }
}
threads.Worker = CarryingWorker;
syncBuiltinESMExports();
