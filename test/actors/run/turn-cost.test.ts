// The counted cost of a turn: each further read, batch, value or message of a turn fails here, on a machine of any
// speed. `npm run perf` measures times. Time is simulated.
import assert from "node:assert/strict";
import { test } from "node:test";
import { newsTopic, readNews } from "../../../bus/protocol/news.ts";
import { loadDeployment } from "../../../host/deployment.ts";
import type { LoadedPlugin } from "../../../host/plugin-seams.ts";
import type { Scope, Store } from "../../../storage/store/store.ts";
import { ActorProcess, processSettings } from "../../support/actor-process.ts";
import { scopeWith } from "../../support/scope-with.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../support/scripted-model.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { cleanup } from "../../support/temp.ts";

const atEnd = cleanup();
const prompt = { system_prompt: { inline: "You answer." } };
const settings = processSettings(atEnd, { plain: prompt, counting: { ...prompt, tools: ["calculator"] } });
const usage = { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 };

/** The work of the store and of the bus. */
interface Cost {
  batches: number;
  statements: number;
  /** The parameters of those, and the characters of their texts. */
  values: number;
  characters: number;
  reads: number;
  /** Messages to actors. */
  messages: number;
}

/** Calls a tool once if there is one, then answers. */
function answer(messages: readonly ShownMessage[]): ScriptedReply {
  const isAsked = messages.at(-1)?.role === "user" && messages.at(-1)?.content === "count";
  if (!isAsked) return { text: ["Hello."], usage };
  return { calls: [{ id: "sum", name: "calculator", arguments: '{"expression":"6*7"}' }], usage };
}

/** Adds a store's statements to `cost`. */
function counted(store: Store, cost: Cost): Store {
  function counting<S extends Scope>(scope: S): S {
    const write: Scope["write"] = (ops, ...rest) => {
      const values = ops.flatMap(({ params }) => params);
      cost.batches++;
      cost.statements += ops.length;
      cost.values += values.length;
      for (const value of values) if (typeof value === "string") cost.characters += value.length;
      return scope.write(ops, ...rest);
    };
    const read: Scope["read"] = (statement, ...params) => {
      cost.reads++;
      return scope.read(statement, ...params);
    };
    return scopeWith(scope, { write, read });
  }
  return { ...store, tenant: (id) => counting(store.tenant(id)), system: counting(store.system), close: () => {} };
}

/** The cost of a turn when `crowd` of them run at once: the first of each thread, and the third. */
async function costsOf(
  manifest: string,
  content: string,
  crowd: number,
  onNews?: (text: string) => void,
  plugins: readonly LoadedPlugin[] = [],
): Promise<{ first: Cost; later: Cost }> {
  const sim = new Sim(1);
  const disk = await SimDisk.open(atEnd);
  const env = sim.env();
  const cost: Cost = { batches: 0, statements: 0, values: 0, characters: 0, reads: 0, messages: 0 };
  const store = counted(disk.store(sim, env), cost);
  const model = new ScriptedModel(env, answer, () => 3);
  const process = new ActorProcess({ env, store, settings, model, plugins, bootId: "one" });
  atEnd.after(() => process.close());
  if (onNews) process.bus.subscribeEverywhere(newsTopic("acme"), onNews);
  const deliver = process.host.deliver.bind(process.host);
  process.host.deliver = (message) => {
    cost.messages++;
    deliver(message);
  };
  async function turns(): Promise<Cost> {
    const before = { ...cost };
    const all = Array.from({ length: crowd }, (_, at) =>
      process.submit({ manifest, thread_suffix: `t${at}`, messages: [{ role: "user", content }] }),
    );
    for (const turn of all) await sim.until(turn.ended);
    // Rows that are written together with those of other turns.
    await sim.advance(2_000);
    const names = Object.keys(cost) as (keyof Cost)[];
    return Object.fromEntries(names.map((name) => [name, (cost[name] - before[name]) / crowd])) as unknown as Cost;
  }
  // Rows that a process reads once.
  const warm = process.submit({ manifest, thread_suffix: "warm", messages: [{ role: "user", content }] });
  await sim.until(warm.ended);
  await sim.advance(2_000);
  const first = await turns();
  await turns();
  const later = await turns();
  assert.deepEqual(process.crashes, []);
  return { first, later };
}

/**
 * The most that a turn may cost. A change that needs more raises the bound here, and measures the effect (`npm run
 * perf`).
 */
const plainMost: Cost = { batches: 3, statements: 10, values: 111, characters: 2_000, reads: 0, messages: 4 };
const toolMost: Cost = { batches: 5, statements: 18, values: 191, characters: 3_750, reads: 0, messages: 6 };
/** The first turn of a thread looks for it, and creates its row. */
const begun = (most: Cost): Cost => ({ ...most, values: most.values + 7, reads: 1 });

for (const crowd of [1, 40])
  for (const [manifest, content, most] of [
    ["plain", "hello", plainMost],
    ["counting", "count", toolMost],
  ] as const)
    test(`a turn of ${manifest} stays within its cost, among ${crowd - 1} others`, async () => {
      const { first, later } = await costsOf(manifest, content, crowd);
      // Turns of one moment share a batch.
      const together = crowd === 1 ? {} : { batches: most.batches - 0.5 };
      within(first, { ...begun(most), ...together });
      within(later, { ...most, ...together });
    });

test("a turn whose news a console hears costs no statement and no message to an actor", async () => {
  const texts: string[] = [];

  const { later } = await costsOf("counting", "count", 1, (text) => texts.push(text));

  within(later, toolMost);
  const news = texts.flatMap(readNews);
  // The start and the end of each of the four turns: the run, and its thread.
  assert.equal(news.length, 16);
  assert.ok(texts.length <= 8, "news of one moment share a message");
});

test("a turn of a manifest without the shop costs the same with the shop's plugin and without it", async () => {
  const { plugins } = await loadDeployment({ SVC_COMMERCE_ENABLED: "true" });
  assert.deepEqual(
    plugins.map(({ plugin }) => plugin.name),
    ["commerce"],
  );
  for (const [manifest, content] of [
    ["plain", "hello"],
    ["counting", "count"],
  ] as const)
    assert.deepEqual(
      await costsOf(manifest, content, 1, undefined, plugins),
      await costsOf(manifest, content, 1),
      manifest,
    );
});

function within(cost: Cost, most: Cost): void {
  const passed = (Object.keys(most) as (keyof Cost)[]).filter((name) => cost[name] > most[name]);
  assert.deepEqual(passed, [], JSON.stringify({ cost, most }));
  for (const name of ["statements", "messages"] as const) assert.ok(cost[name] > most[name] / 2, `${name} are counted`);
}
