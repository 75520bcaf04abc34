import { runBackToBack } from "./back-to-back.ts";
import { headOf, type Lab, type Target } from "./lab.ts";
import { workflowScenario } from "./scenarios.ts";

interface Load {
  readonly name: string;
  /** The work of each item. */
  readonly step: object;
}

const loads: readonly Load[] = [
  {
    name: "agent steps of one model call",
    step: { kind: "agent", config: { manifest: workflowScenario.manifest, prompt: "Answer {{item}}." } },
  },
  { name: "template steps", step: { kind: "template", config: { text: "{{item}}" } } },
];

/** Measures the steps per second of runs of workflows, beside durable runs of the same work. Returns the lines of its report. */
export async function runWorkflowScenario(lab: Lab): Promise<string[]> {
  const { name, manifest, runs, parallel, items } = workflowScenario;
  const streams = runs * parallel;
  const env = { SVC_FIBER_CONCURRENCY: String(streams), ...lab.options.env };
  const targets = await lab.startTargets(["svc"], name, { env });
  try {
    const [svc] = targets.list;
    if (svc === undefined) return [];
    const seconds = lab.options.seconds ?? workflowScenario.secondsMax;
    const plain = async (prefix: string, secondsMax: number): Promise<number> => {
      const load = { port: svc.port, head: headOf(svc), manifest, prefix, streams, secondsMax };
      const { turns, windowMs } = await runBackToBack({
        ...load,
        turnsMax: lab.options.turns ?? Number.POSITIVE_INFINITY,
      });
      return (turns * 1_000) / windowMs;
    };
    await plain("warm", lab.options.warmUp);
    const durable = await plain("plain", seconds);
    const lines = [`workflow: ${durable.toFixed(0)} plain durable runs a second, ${streams} at once`];
    for (const load of loads) {
      const steps = await stepsPerSecond(svc, load, lab.options.turns ?? items);
      lab.note(`workflow: ${steps.toFixed(0)} ${load.name} a second`);
      lines.push(`workflow: ${steps.toFixed(0)} ${load.name} a second, in ${runs} maps of ${parallel} items at once`);
    }
    svc.assertAlive();
    return lines;
  } finally {
    await targets.stop();
  }
}

async function stepsPerSecond(svc: Target, { name, step }: Load, items: number): Promise<number> {
  const { runs, parallel: max_parallel } = workflowScenario;
  const id = name.replaceAll(" ", "-");
  const config = { items: Array.from({ length: items }, (_, at) => at), max_parallel, step };
  const definition = { steps: [{ id: "map", kind: "map", config }] };
  await send(svc, "PUT", `/workflows/${id}`, { name: id, definition });
  const from = performance.now();
  const open = new Set<string>();
  for (let at = 0; at < runs; at++) {
    const { run_id } = await send(svc, "POST", `/workflows/${id}/runs`, { inputs: {} });
    open.add(`/workflows/${id}/runs/${run_id}`);
  }
  await Promise.all([...open].map((path) => readToEnd(svc, path)));
  return (runs * items * 1_000) / (performance.now() - from);
}

/** Reads the stream of a run to its end, which is a success. */
async function readToEnd(svc: Target, path: string): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${svc.port}${path}/stream`, { headers: svc.headers });
  const text = await response.text();
  if (!text.includes('"status":"succeeded"')) throw new Error(`a run of a workflow failed: ${text.slice(-500)}`);
}

async function send(svc: Target, method: string, path: string, body: object): Promise<{ readonly run_id: string }> {
  const headers = { ...svc.headers, "content-type": "application/json" };
  const response = await fetch(`http://127.0.0.1:${svc.port}${path}`, { method, headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as { run_id: string };
}
