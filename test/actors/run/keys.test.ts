// The Idempotency-Key of a turn without a thread: stored with the answer, and free again without one.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { systemEnv } from "../../../bus/env.ts";
import { decodeAnswer } from "../../../bus/protocol/turn-answer.ts";
import type { Store } from "../../../storage/store/store.ts";
import { ActorProcess, processSettings } from "../../support/actor-process.ts";
import { eventually } from "../../support/eventually.ts";
import { outcomeOf } from "../../support/outcome.ts";
import { refusingStore } from "../../support/refusing-store.ts";
import { ScriptedModel, type ScriptedReply } from "../../support/scripted-model.ts";
import { dialects, testStore } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const env = systemEnv();

for (const dialect of dialects)
  describe(`the key of a turn without a thread, on ${dialect}`, () => {
    const atEnd = cleanup();
    let store: Store;
    let settings: ReturnType<typeof processSettings>;
    before(async () => {
      settings = processSettings(atEnd, { agent: {} }, { SVC_AUDIT_FLUSH_SECONDS: "3600" });
      ({ store } = await testStore(dialect, atEnd));
    });

    function start(...replies: readonly ScriptedReply[]) {
      const model = new ScriptedModel(env, (_, earlier) => replies[earlier] ?? { text: ["Again."] });
      const refusing = refusingStore(store);
      const process = new ActorProcess({ env, store: refusing, settings, model, bootId: env.id() });
      atEnd.after(() => process.close());
      const submit = (key: string) =>
        process.submit({
          manifest: "agent",
          thread_suffix: null,
          surface: "chat",
          idempotency: { key, fingerprint: "the same body" },
        });
      return { process, model, refusing, submit };
    }

    test("IDEM-012 keeps the answer, and a repeated request gets it", async () => {
      const { model, submit } = start({ text: ["First."] });
      const first = submit("answered");
      await first.ended;

      const again = await submit("answered").accepted;

      assert.deepEqual(again, { kind: "answer", ...decodeAnswer(first.text) });
      assert.equal(model.requests.length, 1);
    });

    test("IDEM-013 is taken while the turn runs", async () => {
      const { model, submit } = start();
      const first = submit("running");
      await first.accepted;

      await assert.rejects(submit("running").accepted, { code: "idempotency_in_progress" });

      await first.ended;
      assert.equal(model.requests.length, 1);
    });

    test("IDEM-010 is free when the model has failed, and the turn runs again", async () => {
      const { submit } = start({ failure: "status 400" });
      const first = submit("failed");
      await first.ended;

      const second = submit("failed");
      await second.accepted;
      await second.ended;

      assert.deepEqual(
        [first, second].map(({ text }) => decodeAnswer(text).status),
        [502, 200],
      );
    });

    for (const [what, statement] of [
      ["the answer", "idempotency_settle"],
      ["anything of its end", "usage_insert"],
    ] as const)
      test(`IDEM-010 is free when ${what} could not be kept: a client that got an error may retry`, async () => {
        const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0 };
        const { model, refusing, submit } = start({ text: ["Lost."], usage });
        refusing.refused = statement;
        const first = submit(`lost ${statement}`);
        await first.ended;

        refusing.refused = null;
        const second = await eventually("a free key", async () => {
          const turn = submit(`lost ${statement}`);
          const outcome = await outcomeOf(turn.accepted);
          if ("refused" in outcome) return undefined;
          await turn.ended;
          return turn;
        });

        assert.deepEqual(
          [first, second].map(({ text }) => decodeAnswer(text).status),
          [503, 200],
        );
        assert.equal(model.requests.length, 2);
      });
  });
