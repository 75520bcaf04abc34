import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Lab, Target } from "./lab.ts";
import { threadId } from "./protocol.ts";
import type { ReattachResult } from "./results.ts";
import { reattachScenario } from "./scenarios.ts";

const timeoutMs = 100_000;
const healthEveryMs = 10;
const metricsEveryMs = 200;

/**
 * Measures the effect on others of a crowd that reattaches to a few long threads at once. One crowd reads its streams, another does not.
 */
export async function runReattachScenario(lab: Lab): Promise<ReattachResult[]> {
  const dir = mkdtempSync(`${lab.options.dataDir}/loop-`);
  const delays = `${dir}/delays`;
  const preload = new URL("./loop-delay.js", import.meta.url).href;
  const env = { PERF_LOOP_DELAYS: delays, NODE_OPTIONS: `--import ${preload}` };
  const targets = await lab.startTargets(["svc"], reattachScenario.name, { env }).catch((error: unknown) => {
    rmSync(dir, { recursive: true, force: true });
    throw error;
  });
  try {
    const [svc] = targets.list;
    if (svc === undefined) return [];
    await storeThreads(svc);
    const results: ReattachResult[] = [];
    for (const { reads, streams } of reattachScenario.crowds) {
      const result = await measureCrowd(lab, svc, { reads, streams: lab.options.streams ?? streams }, delays);
      results.push(result);
      lab.note(
        `reattach: ${result.streams} streams ${reads ? "that read" : "that do not"}: longest stall ${result.stallMs.toFixed(0)} ms, /health ${result.healthMaxMs.toFixed(0)} ms, ${(result.elapsedMs / 1000).toFixed(1)} s`,
      );
    }
    return results;
  } finally {
    await targets.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Creates threads of one long message each. */
async function storeThreads(svc: Target): Promise<void> {
  const { threads, prefix, threadBytes, manifest } = reattachScenario;
  for (let number = 0; number < threads; number++) {
    const response = await fetch(`http://127.0.0.1:${svc.port}/chat`, {
      method: "POST",
      headers: { ...svc.headers, "content-type": "application/json" },
      body: JSON.stringify({
        manifest,
        thread_id: threadId(prefix, number),
        messages: [{ role: "user", content: "A long past. ".repeat(threadBytes / 13) }],
      }),
    });
    if (!response.ok) throw new Error(`a thread could not be stored: ${response.status} ${await response.text()}`);
    await response.body?.cancel();
  }
}

async function measureCrowd(
  lab: Lab,
  svc: Target,
  { reads, streams }: { reads: boolean; streams: number },
  delays: string,
): Promise<ReattachResult> {
  const { threads, prefix, holdMs } = reattachScenario;
  const fromEpochMs = Date.now();
  const health: number[] = [];
  let waitingBytesMax = 0;
  let over = false;
  const watch = async (everyMs: number, look: () => Promise<void>): Promise<void> => {
    while (!over) {
      await look();
      await sleep(everyMs);
    }
  };
  const get = async (path: string): Promise<string> =>
    (await fetch(`http://127.0.0.1:${svc.port}${path}`, { headers: svc.headers })).text();
  const watching = Promise.all([
    watch(healthEveryMs, async () => {
      const began = performance.now();
      await get("/health");
      health.push(performance.now() - began);
    }),
    watch(metricsEveryMs, async () => {
      const bytes = /^svc_stream_waiting_bytes (\d+)$/m.exec(await get("/metrics"))?.[1];
      waitingBytesMax = Math.max(waitingBytesMax, Number(bytes ?? 0));
    }),
  ]);
  const { whole, bytes, elapsedMs } = await lab.runCrowd({
    kind: "crowd",
    port: svc.port,
    path: "/chat/stream/{thread}",
    headers: { ...svc.headers, accept: "text/event-stream" },
    threads: { prefix, count: threads },
    streams,
    reads,
    holdMs,
    timeoutMs,
  });
  over = true;
  await watching;
  svc.assertAlive();
  const toEpochMs = Date.now();
  const memory = lab.sampler.between(svc.label, fromEpochMs, toEpochMs);
  health.sort((a, b) => a - b);
  return {
    streams,
    threads,
    reads,
    whole,
    bytes,
    elapsedMs,
    stallMs: longestDelay(delays, fromEpochMs),
    healthP99Ms: health[Math.floor(health.length * 0.99)] ?? Number.NaN,
    healthMaxMs: health.at(-1) ?? Number.NaN,
    rssMaxMib: Math.max(0, ...memory),
    waitingBytesMax,
  };
}

/** The longest noted turn of an event loop since that time. */
function longestDelay(path: string, fromEpochMs: number): number {
  if (!existsSync(path)) return 0;
  const lines = readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => line.split(" ").map(Number));
  return Math.max(0, ...lines.map(([at = 0, _thread, ms = 0]) => (at >= fromEpochMs ? ms : 0)));
}
