// The performance harness's command line: runs scenarios, prints a table, and writes a JSON file and an HTML report.
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus, release, totalmem, type } from "node:os";
import { fileURLToPath } from "node:url";
import { runBodiesScenario } from "./bodies-scenario.ts";
import { runClusterScenario } from "./cluster-scenario.ts";
import { measureFlush } from "./disk.ts";
import { runDurableScenario } from "./durable-scenario.ts";
import { judge } from "./figures.ts";
import { runFirstWordScenario } from "./first-word-scenario.ts";
import { runGrowthScenario } from "./growth-scenario.ts";
import { guardCosts } from "./guard-costs.ts";
import { runIdleScenario } from "./idle-scenario.ts";
import { type Lab, openLab } from "./lab.ts";
import { runLongThreadScenario } from "./longthread-scenario.ts";
import { type Options, parseOptions, usage } from "./options.ts";
import { runReattachScenario } from "./reattach-scenario.ts";
import { recallChunks, runRecallScenario } from "./recall-scenario.ts";
import { renderReport } from "./report.ts";
import type {
  BodiesResult,
  DurableResult,
  FirstWordResult,
  GrowthRow,
  Machine,
  MemoryResult,
  ReattachResult,
  Results,
  Row,
  SoakResult,
  WaitsResult,
} from "./results.ts";
import {
  bodiesScenario,
  clusterScenario,
  durableScenario,
  firstWordScenario,
  growthScenario,
  idleScenario,
  longThreadScenario,
  reattachScenario,
  recallName,
  shopScenario,
  skillsScenario,
  soakScenario,
  turnScenarios,
  waitsScenario,
  workflowScenario,
} from "./scenarios.ts";
import { runShopScenario } from "./shop-scenario.ts";
import { runSkillsScenario } from "./skills-scenario.ts";
import { runSoakScenario } from "./soak-scenario.ts";
import { formatResults } from "./table.ts";
import { runTurnScenario } from "./turn-scenario.ts";
import { runWaitsScenario } from "./waits-scenario.ts";
import { runWorkflowScenario } from "./workflow-scenario.ts";

/** The scenario of turns with controls, which prints the cost of the controls too. */
const guardedName = "guarded";

const home = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");

process.exitCode = await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<number> {
  let options: Options;
  try {
    options = parseOptions(args, home);
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${usage}`);
    return 2;
  }
  if (options.help) {
    process.stdout.write(usage);
    return 0;
  }
  const results = await measure(options);
  const file = `${options.out}/${results.startedAt.replaceAll(":", "-")}`;
  writeFileSync(`${file}.json`, `${JSON.stringify(results, null, 1)}\n`);
  writeFileSync(`${file}.html`, renderReport(results));
  process.stdout.write(`${formatResults(results)}\n${file}.json\n${file}.html\n`);
  if (results.failures.length > 0) return 1;
  return options.check && results.verdicts.some((verdict) => verdict.state === "MISSED") ? 1 : 0;
}

async function measure(options: Options): Promise<Results> {
  const startedAt = new Date().toISOString();
  const began = performance.now();
  mkdirSync(options.out, { recursive: true });
  mkdirSync(options.dataDir, { recursive: true });
  const flush = measureFlush(options.dataDir);
  const note = (line: string) => {
    const seconds = ((performance.now() - began) / 1000).toFixed(0).padStart(4);
    process.stderr.write(`${seconds} s  ${line}\n`);
  };
  const lab = await openLab(options, note);
  const stopEarly = () => void lab.close().finally(() => process.exit(130));
  process.once("SIGINT", stopEarly).once("SIGTERM", stopEarly);
  try {
    const found = await runScenarios(lab);
    const seconds = (performance.now() - began) / 1000;
    return {
      startedAt,
      seconds,
      machine: describeMachine(),
      flush,
      ...found,
      rss: lab.sampler.series,
      verdicts: judge(found),
    };
  } finally {
    await lab.close();
  }
}

async function runScenarios(
  lab: Lab,
): Promise<Omit<Results, "startedAt" | "seconds" | "machine" | "flush" | "rss" | "verdicts">> {
  const { scenarios, targets } = lab.options;
  const rows: Row[] = [];
  const live: MemoryResult["live"][number][] = [];
  const failures: string[] = [];
  let rest: Pick<MemoryResult, "atRestMib" | "idle"> = {};
  let soak: SoakResult | undefined;
  let firstWord: FirstWordResult | undefined;
  let bodies: BodiesResult | undefined;
  const growth: GrowthRow[] = [];
  let reattach: readonly ReattachResult[] = [];
  let waits: WaitsResult | undefined;
  let durable: DurableResult | undefined;
  // A failed scenario does not stop the others.
  const attempt = async (name: string, work: () => Promise<void>) => {
    if (!scenarios.includes(name)) return;
    await work().catch((error: Error) => failures.push(`${name}: ${error.message}`));
  };
  for (const scenario of turnScenarios) {
    await attempt(scenario.name, async () => {
      if (scenario.name === guardedName) for (const line of guardCosts()) lab.note(line);
      const found = await runTurnScenario(scenario, lab);
      rows.push(...found.rows);
      if (found.live !== undefined) live.push(found.live);
    });
  }
  if (targets.includes("svc")) {
    await attempt(recallName, async () => {
      const lines = await runRecallScenario(lab.options.dataDir, lab.options.turns ?? recallChunks, lab.note);
      process.stdout.write(`${lines.join("\n")}\n`);
    });
    await attempt(firstWordScenario.name, async () => {
      firstWord = await runFirstWordScenario(lab);
    });
    await attempt(bodiesScenario.name, async () => {
      bodies = await runBodiesScenario(lab);
    });
    await attempt(idleScenario.name, async () => {
      rest = await runIdleScenario(lab);
    });
    await attempt(soakScenario.name, async () => {
      soak = await runSoakScenario(lab);
    });
    await attempt(growthScenario.name, async () => {
      growth.push(...(await runGrowthScenario(lab)));
    });
    await attempt(longThreadScenario.name, async () => {
      growth.push(...(await runLongThreadScenario(lab)));
    });
    await attempt(reattachScenario.name, async () => {
      reattach = await runReattachScenario(lab);
    });
    await attempt(waitsScenario.name, async () => {
      waits = await runWaitsScenario(lab);
    });
    await attempt(durableScenario.name, async () => {
      durable = await runDurableScenario(lab);
    });
    await attempt(workflowScenario.name, async () => {
      process.stdout.write(`${(await runWorkflowScenario(lab)).join("\n")}\n`);
    });
    await attempt(clusterScenario.name, async () => {
      process.stdout.write(`${(await runClusterScenario(lab)).join("\n")}\n`);
    });
    await attempt(skillsScenario.name, async () => {
      process.stdout.write(`${(await runSkillsScenario(lab)).join("\n")}\n`);
    });
    await attempt(shopScenario.name, async () => {
      process.stdout.write(`${(await runShopScenario(lab)).join("\n")}\n`);
    });
  }
  return { rows, memory: { ...rest, live }, soak, firstWord, bodies, growth, reattach, waits, durable, failures };
}

function describeMachine(): Machine {
  const processors = cpus();
  return {
    processor: processors[0]?.model ?? "unknown",
    processors: processors.length,
    memoryGib: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()}`,
    node: process.version,
  };
}
