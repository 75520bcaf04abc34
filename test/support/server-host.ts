import { readFileSync } from "node:fs";
import { bootRefusals } from "../../governance/settings/boot-refusals.ts";
import { loadDeployment } from "../../host/deployment.ts";
import { pluginProviders } from "../../host/plugin-seams.ts";
import { serve } from "../../host/serve.ts";

// A process that runs several test servers. The program is loaded once. Each server has its own settings, data directory and port. The
// process ends with its parent.

/** A command to the process. A number identifies each server. */
export type HostOrder =
  | { readonly start: number; readonly environment: Readonly<Record<string, string>> }
  /** Lets the server drain and end. */
  | { readonly stop: number };

/** A message of the process. A server that fails to start ends with an error. */
export type HostWord =
  | { readonly ready: number; readonly url: string }
  | { readonly ended: number; readonly error: string | null };

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};
const stops = new Map<number, AbortController>();
const say = (word: HostWord): void => void process.send?.(word);

process.on("disconnect", () => process.exit());
process.on("message", (order: HostOrder) => {
  if ("stop" in order) stops.get(order.stop)?.abort();
  else void run(order.start, order.environment);
});

async function run(id: number, environment: Readonly<Record<string, string>>): Promise<void> {
  const stop = new AbortController();
  stops.set(id, stop);
  try {
    const { settings, plugins } = await loadDeployment(environment);
    const refusals = bootRefusals(settings, pluginProviders(plugins));
    if (refusals.length > 0) throw new Error(refusals.join("\n"));
    // uWebSockets.js reads it when it is loaded: all servers of this process have the default.
    process.env.UWS_HTTP_MAX_HEADERS_SIZE ??= String(settings.httpMaxHeaderBytes);
    await serve(settings, {
      version,
      stop: stop.signal,
      // One thread speaks HTTP and runs turns, unless the settings say otherwise.
      cores: 2,
      onReady: ({ url }) => say({ ready: id, url }),
    });
    say({ ended: id, error: null });
  } catch (error) {
    say({ ended: id, error: String((error as Error).stack ?? error) });
  } finally {
    stops.delete(id);
  }
}
