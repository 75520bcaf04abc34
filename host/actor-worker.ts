import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { expose } from "comlink";
import nodeEndpoint from "comlink/dist/esm/node-adapter.mjs";
import { systemEnv } from "../bus/env.ts";
import type { NodeConfig } from "./actor-deps.ts";
import { startActorNode } from "./actor-node.ts";
import { importPlugins, pluginsOf } from "./plugins.ts";

// Entry of an actor thread.
const { config, storePort } = workerData as { config: NodeConfig; storePort: MessagePort };
const plugins = await importPlugins(pluginsOf(config.settings));
const env = systemEnv(config.settings.testClockOffsetMs);
if (parentPort) expose(startActorNode(config, env, storePort, plugins), nodeEndpoint(parentPort));
