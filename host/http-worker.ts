import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { expose, type Remote, wrap } from "comlink";
import nodeEndpoint from "comlink/dist/esm/node-adapter.mjs";
import { systemEnv } from "../bus/env.ts";
import { createHttpNode, type HttpNode, type HttpNodeConfig, type MainControl } from "./http-node.ts";
import { importPlugins, pluginsOf } from "./plugins.ts";

// Entry of an HTTP thread, if the main thread does not serve HTTP alone.

/** The calls of the main thread to an HTTP thread. */
export type HttpControl = Pick<
  HttpNode,
  | "connect"
  | "lost"
  | "joinCluster"
  | "listen"
  | "metrics"
  | "spans"
  | "announceEnd"
  | "stopAccepting"
  | "answerAll"
  | "close"
>;

const { config, storePort, mainPort } = workerData as {
  config: HttpNodeConfig;
  storePort: MessagePort;
  mainPort: MessagePort;
};
const plugins = await importPlugins(pluginsOf(config.settings));
if (parentPort) {
  const main: Remote<MainControl> = wrap<MainControl>(nodeEndpoint(mainPort));
  const asked: MainControl = { allMetrics: () => main.allMetrics(), runTask: (name) => main.runTask(name) };
  const node = createHttpNode(config, systemEnv(config.settings.testClockOffsetMs), storePort, plugins, asked);
  const { connect, lost, joinCluster, listen, metrics, spans, announceEnd, stopAccepting, answerAll, close } = node;
  const control: HttpControl = {
    connect,
    lost,
    joinCluster,
    listen,
    metrics,
    spans,
    announceEnd,
    stopAccepting,
    answerAll,
    close,
  };
  expose(control, nodeEndpoint(parentPort));
}
