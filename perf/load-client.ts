// Entry of the load client's process. It receives one job at a time, sends back its result, and ends with the harness.
import { runCrowd } from "./crowd-load.ts";
import { type IdleStreams, openStreams } from "./idle-load.ts";
import type { Job } from "./protocol.ts";
import { type RepeatedRequests, startRepeating } from "./repeat-load.ts";
import { runTurns } from "./turn-load.ts";

let idle: IdleStreams | undefined;
let repeated: RepeatedRequests | undefined;

process.on("disconnect", () => process.exit());
process.on("message", (job: Job) => {
  void run(job).then((result) => process.send?.({ result }));
});
process.send?.({ result: "ready" });

async function run(job: Job): Promise<unknown> {
  if (job.kind === "turns") return runTurns(job);
  if (job.kind === "crowd") return runCrowd(job);
  if (job.kind === "idle") {
    idle = await openStreams(job);
    return idle.result;
  }
  if (job.kind === "repeat") {
    repeated = startRepeating(job);
    return null;
  }
  const result = repeated?.stop() ?? null;
  await idle?.close();
  idle = undefined;
  repeated = undefined;
  return result;
}
