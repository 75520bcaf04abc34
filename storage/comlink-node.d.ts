// The package publishes these types under another path than the one it exports the code from.
declare module "comlink/dist/esm/node-adapter.mjs" {
  import type { MessagePort, Worker } from "node:worker_threads";
  import type { Endpoint } from "comlink";

  export default function nodeEndpoint(port: MessagePort | Worker): Endpoint;
}
