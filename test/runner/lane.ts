import { suite } from "node:test";
import { inspect } from "node:util";
import { endHost } from "../support/hosted-server.ts";
import { fileReported, ownSuite } from "./lane-reporter.ts";
import type { Order, Word } from "./report.ts";

// Runs test files in one process, one after the other, in the order of the runner. A file is a suite: its hooks run before the next file
// starts. Each file sees the same environment and working directory. A file fails if it leaves a resource open.

/** The time for closed resources to disappear. */
const leftMsMax = 3_000;
const lookMs = 10;

const root = new URL("../../", import.meta.url);
const environment = { ...process.env };
const directory = process.cwd();
/** Errors outside of any test. */
const strays: string[] = [];
process.on("uncaughtExceptionMonitor", (error, origin) => strays.push(`${origin}: ${inspect(error)}`));
process.on("unhandledRejection", (error) => strays.push(`unhandledRejection: ${inspect(error)}`));
process.on("disconnect", () => process.exit());

let next = Promise.withResolvers<Order>();
process.on("message", (order: Order) => next.resolve(order));
const before = resources();
for (;;) {
  const order = await next.promise;
  // Servers and child processes of the files end with this process.
  if (order === "end") {
    await endHost();
    process.exit();
  }
  if (order.alone) {
    // node:test knows the names that are asked for before the suites that are loaded later. It ends the process.
    process.channel?.unref();
    await import(new URL(order.file, root).href);
    break;
  }
  next = Promise.withResolvers();
  await runFile(order.file);
}

async function runFile(file: string): Promise<void> {
  const began = performance.now();
  const isReported = fileReported();
  // The hooks of the inner suite are those of the file.
  await suite(ownSuite, () => void suite(ownSuite, async () => void (await import(new URL(file, root).href))));
  await isReported;
  const left = [...(await leftOpen()), ...strayErrors(), ...restored()];
  say({ done: { left, ms: performance.now() - began } });
}

/** Errors without a test make the process end with 1. */
function strayErrors(): string[] {
  const found = strays.splice(0);
  if (process.exitCode === undefined) return [];
  process.exitCode = undefined;
  return found.map((text) => `an error after the test that it belongs to, or of none: ${text}`);
}

async function leftOpen(): Promise<string[]> {
  const from = performance.now();
  let left = moreThanBefore();
  while (left.length > 0 && performance.now() - from < leftMsMax) {
    await new Promise((look) => setTimeout(look, lookMs));
    left = moreThanBefore();
  }
  return left.map((name) => `it has left open: ${name}`);
}

function moreThanBefore(): string[] {
  return [...resources()].filter(([name, count]) => count > (before.get(name) ?? 0)).map(([name]) => name);
}

/** The resources that keep this process alive, by kind. */
function resources(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of process.getActiveResourcesInfo()) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

/** Undoes a file's changes of the process; returns their names. */
function restored(): string[] {
  const changed = new Set(
    [...Object.keys(environment), ...Object.keys(process.env)].filter(
      (name) => process.env[name] !== environment[name],
    ),
  );
  for (const name of changed) {
    const value = environment[name];
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
  const isElsewhere = process.cwd() !== directory;
  if (isElsewhere) process.chdir(directory);
  return [
    ...[...changed].map((name) => `it has changed the environment: ${name}`),
    ...(isElsewhere ? ["it has changed the working directory"] : []),
  ];
}

function say(word: Word): void {
  process.send?.(word);
}
