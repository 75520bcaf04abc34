import { loadDeployment } from "../../host/deployment.ts";
import { serve } from "../../host/serve.ts";

// A server in a process of its own that speaks HTTP and runs the actors on one thread, as on a machine with two cores.
// It reports how much processor time that thread has used without a yield.

/** The messages to the process. */
export type Order = "begin" | "end";

/**
 * The reports of the process: its address, the start of counting, and the longest time between two turns of the event
 * loop since `begin`.
 */
export type Report = { readonly url: string } | "begun" | { readonly longestMs: number };

const { settings } = await loadDeployment(JSON.parse(process.argv[2] as string));
const say = (report: Report): void => void process.send?.(report);
let counting = false;
let longestMs = 0;

/** Measures processor time, not clock time: other work of the machine does not count. */
function look(last: NodeJS.CpuUsage): void {
  const { user, system } = process.threadCpuUsage(last);
  longestMs = Math.max(longestMs, (user + system) / 1_000);
  const now = process.threadCpuUsage();
  if (counting) setImmediate(look, now);
}

process.on("message", (order: Order) => {
  counting = order === "begin";
  if (!counting) return say({ longestMs });
  longestMs = 0;
  setImmediate(look, process.threadCpuUsage());
  say("begun");
});
process.on("disconnect", () => process.exit());
await serve(settings, {
  version: "0.0.0-test",
  stop: new AbortController().signal,
  cores: 2,
  onReady: ({ url }) => say({ url }),
});
