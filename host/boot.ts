import type { Logger } from "pino";
import type { Env } from "../bus/env.ts";
import type { Settings } from "../governance/settings/settings.ts";
import type { Engine } from "../http/engines/choose.ts";
import type { SharedPlaces } from "./cluster/shared-places.ts";
import type { LoadedPlugin } from "./plugin-seams.ts";
import type { ParentChannel } from "./sibling-metrics.ts";
import type { ActorSystem } from "./system.ts";

/** Options of a server beyond its settings. */
export interface ServeOptions {
  readonly version: string;
  /** Asks the server to drain and stop. */
  readonly stop: AbortSignal;
  /** True if log lines go to a terminal. */
  readonly terminal?: boolean;
  /** Number of processors to use; by default those of the machine. */
  readonly cores?: number;
  /** True if other processes listen on the same port. */
  readonly sharesPort?: boolean;
  /** The parent that started this server with others on the same port; null for a server of its own. */
  readonly parent?: ParentChannel | null;
  /** Called when the server accepts requests. */
  readonly onReady?: (server: RunningServer) => void;
}

/** A server that accepts requests. */
export interface RunningServer {
  /** Empty if it listens on no port. */
  readonly url: string;
  readonly system: ActorSystem;
}

/** The checked inputs of a server that is starting: its database is usable and its plugins are loaded. */
export interface Boot {
  readonly settings: Settings;
  readonly plugins: readonly LoadedPlugin[];
  readonly options: ServeOptions;
  readonly env: Env;
  readonly log: Logger;
  readonly engine: Engine;
  /** Folders or buckets that the hosts share; null outside a cluster. */
  readonly places: SharedPlaces | null;
}
