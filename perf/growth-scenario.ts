import { setTimeout as sleep } from "node:timers/promises";
import { seedGrowth } from "./growth-seed.ts";
import type { Lab, Target } from "./lab.ts";
import type { GrowthRow } from "./results.ts";
import { growthScenario } from "./scenarios.ts";

const healthPauseMs = 2;

/** Measures requests whose cost could grow with the stored data of a tenant, one at a time, with concurrent requests to /health. */
export async function runGrowthScenario(lab: Lab): Promise<GrowthRow[]> {
  const { name, manifests, rareWord } = growthScenario;
  const targets = await lab.startTargets(["svc"], name, {
    prepare: (dataDir) => seedGrowth(lab.options.svc, dataDir),
  });
  try {
    const [svc] = targets.list;
    if (svc === undefined) return [];
    for (let n = 0; n < manifests; n++) await putManifest(svc, `growth-${n}`);
    const rows = [
      await measure(svc, "search for a rare word", `/chat/sessions/search?q=${rareWord}`),
      await measure(svc, "usage summary", "/usage/summary"),
      await measure(svc, "models", "/v1/models"),
    ];
    for (const { what, p50Ms, p99Ms, stallMs } of rows)
      lab.note(
        `growth: ${what}: ${p50Ms.toFixed(1)} ms p50, ${p99Ms.toFixed(1)} ms p99, longest stall ${stallMs.toFixed(1)} ms`,
      );
    return rows;
  } finally {
    await targets.stop();
  }
}

async function measure(svc: Target, what: string, path: string): Promise<GrowthRow> {
  const times: number[] = [];
  let stallMs = 0;
  let done = false;
  const watch = async () => {
    while (!done) {
      stallMs = Math.max(stallMs, await timed(svc, "/health"));
      await sleep(healthPauseMs);
    }
  };
  const watching = watch();
  try {
    for (let n = 0; n < growthScenario.requests; n++) times.push(await timed(svc, path));
  } finally {
    done = true;
    await watching;
  }
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
  return { what, firstMs: times[0] ?? Number.NaN, p50Ms: at(0.5), p99Ms: at(0.99), stallMs };
}

async function timed(svc: Target, path: string): Promise<number> {
  const began = performance.now();
  const response = await fetch(`http://127.0.0.1:${svc.port}${path}`, { headers: svc.headers });
  const body = await response.text();
  if (!response.ok) throw new Error(`${path} answered ${response.status} ${body.slice(0, 200)}`);
  return performance.now() - began;
}

async function putManifest(svc: Target, name: string): Promise<void> {
  const spec = { system_prompt: { inline: "You help whoever asks. ".repeat(100) }, tools: ["calculator"] };
  const response = await fetch(`http://127.0.0.1:${svc.port}/manifests/${name}`, {
    method: "PUT",
    headers: { ...svc.headers, "content-type": "application/json" },
    body: JSON.stringify({ manifest: { metadata: { name, description: `The agent ${name}` }, spec } }),
  });
  if (!response.ok) throw new Error(`PUT /manifests/${name} answered ${response.status} ${await response.text()}`);
  await response.body?.cancel();
}
