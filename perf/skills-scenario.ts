import type { Lab, Target } from "./lab.ts";
import { skillsScenario } from "./scenarios.ts";

const { skills, items, concurrency, itemModel, requests } = skillsScenario;
const names = Array.from({ length: skills }, (_, n) => `skill-${n}`);
const atOnce = 8;

/** Measures an agent with a large skill library, its list routes, and an evaluation. Returns lines for the terminal. */
export async function runSkillsScenario(lab: Lab): Promise<string[]> {
  const targets = await lab.startTargets(["svc"], skillsScenario.name);
  try {
    const [svc] = targets.list;
    if (svc === undefined) return [];
    const plain = { metadata: { name: "plain" }, spec: { model: { id: "mock-burst" } } };
    const skilled = { metadata: { name: "skilled" }, spec: { ...plain.spec, skills: [{ name: names[0] }] } };
    for (const manifest of [plain, skilled])
      await ask(svc, "PUT", `/manifests/${manifest.metadata.name}`, { manifest });
    const savedMs = await timed(() => saveAll(svc));
    lab.note(`skills: ${skills} skills saved and published in ${(savedMs / 1000).toFixed(1)} s`);
    for (let n = 0; n < requests; n++) await Promise.all(["plain", "skilled"].map((name) => turn(svc, name)));
    const changes: number[] = [];
    for (let n = 1; n <= 10; n++) {
      await ask(svc, "POST", "/skill-library", skillOf(`later-${n}`));
      changes.push(await timed(() => turn(svc, "skilled")));
    }
    return [
      line("a turn without skills", await several(() => turn(svc, "plain"))),
      line("a turn with the index", await several(() => turn(svc, "skilled"))),
      line("the first turn after a change of the library", changes),
      line("GET /skills/{manifest}", await several(() => ask(svc, "GET", "/skills/skilled"))),
      line("GET /skill-library?limit=100", await several(() => ask(svc, "GET", "/skill-library?limit=100"))),
      await evaluation(svc),
    ];
  } finally {
    await targets.stop();
  }
}

async function evaluation(svc: Target): Promise<string> {
  const list = Array.from({ length: items }, (_, n) => ({ user_input: `Question ${n}?` }));
  await ask(svc, "PUT", "/eval/datasets/many", { items: list });
  const manifest = { metadata: { name: "evaluated" }, spec: { model: { id: itemModel } } };
  await ask(svc, "PUT", "/manifests/evaluated", { manifest });
  const calls: number[] = [];
  for (let n = 0; n < 10; n++) calls.push(await timed(() => turn(svc, "evaluated")));
  const body = { dataset_name: "many", candidate_manifest: "evaluated", concurrency };
  let run = await ask(svc, "POST", "/eval/runs", body);
  while (run.status === "in_progress") {
    await new Promise((resolve) => setTimeout(resolve, 200));
    run = await ask(svc, "GET", `/eval/runs/${run.id}`);
  }
  const least = (items * at(calls, 0.5)) / concurrency;
  const ratio = (run.wall_ms / least).toFixed(2);
  const seconds = (run.wall_ms / 1000).toFixed(1);
  return `skills: an evaluation of ${items} items, ${concurrency} at once, turns of ${at(calls, 0.5).toFixed(0)} ms: ${seconds} s, ${ratio} times the least`;
}

async function saveAll(svc: Target): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < names.length) await ask(svc, "POST", "/skill-library", skillOf(names[next++] as string));
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}

function skillOf(name: string) {
  const head = `---\nname: ${name}\ndescription: How to do the work of ${name}, step by step, for the harness.\n---\n`;
  return { files: { "SKILL.md": `${head}# Work\n\n1. Begin.\n2. End.\n` }, publish: true };
}

function turn(svc: Target, manifest: string) {
  return ask(svc, "POST", "/chat", { manifest, messages: [{ role: "user", content: "And now?" }] });
}

// biome-ignore lint/suspicious/noExplicitAny: looked into field by field
async function ask(svc: Target, method: string, path: string, body?: object): Promise<any> {
  const headers = { ...svc.headers, "content-type": "application/json" };
  const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
  const response = await fetch(`http://127.0.0.1:${svc.port}${path}`, init);
  const text = await response.text();
  if (!response.ok) throw new Error(`${path} answered ${response.status} ${text.slice(0, 200)}`);
  return JSON.parse(text);
}

async function several(work: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < requests; n++) times.push(await timed(work));
  return times;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

function line(what: string, times: readonly number[]): string {
  return `skills: ${what}: ${at(times, 0.5).toFixed(1)} ms p50, ${at(times, 0.9).toFixed(1)} ms p90`;
}

function at(times: readonly number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}
