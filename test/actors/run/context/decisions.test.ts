// The questions of a run to its deciders: each once, four at a time, and for 20 seconds at most.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AskedOnce, type Decided } from "../../../../actors/run/context/decisions.ts";
import { type Env, systemEnv } from "../../../../bus/env.ts";
import { ActorProcess, processSettings } from "../../../support/actor-process.ts";
import { gate, wordsOf } from "../../../support/chat.ts";
import { ScriptedModel } from "../../../support/scripted-model.ts";
import { testStore } from "../../../support/stores.ts";
import { cleanup } from "../../../support/temp.ts";

test("a repeated question is asked once, and at most four are asked at a time", async () => {
  const decisions = new AskedOnce<Decided>();
  const gates = Array.from({ length: 6 }, gate);
  const asked: number[] = [];
  const decided = (at: number): Decided => ({
    kind: "decided",
    choice: String(at),
    confidence: 1,
    probabilities: null,
  });
  const ask = (at: number) =>
    decisions.once(`question ${at}`, async () => {
      asked.push(at);
      await gates[at]?.opened;
      return decided(at);
    });

  const all = gates.map((_, at) => ask(at));
  const again = ask(0);
  await Promise.resolve();
  assert.deepEqual(asked, [0, 1, 2, 3]);
  gates[2]?.open();
  assert.deepEqual(await all[2], decided(2));
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(asked, [0, 1, 2, 3, 4]);
  for (const { open } of gates) open();

  assert.deepEqual(
    await Promise.all(all),
    gates.map((_, at) => decided(at)),
  );
  assert.deepEqual(await again, decided(0));
  assert.equal(asked.length, 6);
});

test("a decider without an answer after 20 seconds is skipped, and its call ended", async () => {
  const atEnd = cleanup();
  const waited: number[] = [];
  const real = systemEnv();
  // The decider's time is over at once; no other wait is this long.
  const env: Env = {
    ...real,
    timer: (ms, work) => {
      if (ms === 20_000) waited.push(ms);
      return real.timer(ms === 20_000 ? 20 : ms, work);
    },
  };
  const settings = processSettings(atEnd, {
    lead: {
      pattern: "router",
      sub_agents: ["one", "two"],
      decider: { id: "clef" },
      system_prompt: { inline: "Lead." },
    },
    one: { system_prompt: { inline: "One." } },
    two: { system_prompt: { inline: "Two." } },
  });
  const { store } = await testStore("sqlite", atEnd);
  const asked: string[] = [];
  let pauseMs = 0;
  const model = new ScriptedModel(
    real,
    ([system]) => {
      const words = system?.content ?? "";
      const isDecider = words.includes("Choose which agent");
      asked.push(isDecider ? "decider" : (words.split(".")[0] ?? ""));
      pauseMs = isDecider ? 3_600_000 : 0;
      return { text: [words.startsWith("Two.") ? "Two says." : '{"agent":"two"}'] };
    },
    () => pauseMs,
  );
  const process = new ActorProcess({ env, store, settings, model, bootId: real.id() });
  atEnd.after(() => process.close());

  const turn = process.submit({ manifest: "lead", thread_suffix: "late" });
  await turn.ended;

  assert.equal(wordsOf(turn.frames), "Two says.");
  assert.deepEqual(asked, ["decider", "Lead", "Two"]);
  assert.equal(waited.length, 1);
});
