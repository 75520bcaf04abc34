// A server that is killed while facts are captured or merged stores them once, and its memory store ends with it.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, gate, inTurn, never, says, shown, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { answersFacts } from "../support/fact-models.ts";
import type { MockModel } from "../support/mock-model.ts";
import type { ProcessServer } from "../support/server.ts";
import { gateDialects } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";
import { databaseOf, skipPostgres } from "./support.ts";

for (const dialect of gateDialects)
  describe(`memory and SIGKILL, on ${dialect}`, { skip: dialect === "postgres" && skipPostgres }, () => {
    const atEnd = cleanup();
    let server: ProcessServer;
    let mock: MockModel;
    before(async () => {
      const capture = { enabled: true, model: "captor", min_chars: 1 };
      ({ server, mock } = await startChatProcess(atEnd, {
        models: ["scripted", "captor", "merger"],
        manifests: {
          capturing: { memory: { capture } },
          volatile: { memory: { store: "memory", capture, recall: { tools: true } } },
          merging: {
            memory: {
              capture: { ...capture, max_facts: 20 },
              consolidate: { enabled: true, model: "merger", after_facts: 10 },
            },
          },
        },
        env: (await databaseOf(dialect, atEnd)).env,
      }));
      mock.answer("scripted", { text: "ok" });
    });

    const asked = (model: string) => mock.requests.filter((request) => request.model === model).length;
    const stored = async (manifest: string, status = "active"): Promise<{ content: string }[]> =>
      (await server.get(`/memory?manifest_id=${manifest}&status=${status}`)).json.items;
    const has = (manifest: string, count: number) =>
      eventually(`${count} memories`, async () => (await stored(manifest)).length === count || undefined);
    const chat = (manifest: string, text: string, thread_id: string) =>
      server.request("POST", "/chat", { body: turn(manifest, text, { thread_id }) });

    test("a kill during a capture stores its facts once, after the restart", async () => {
      mock.answer("captor", says("{", never));
      await chat("capturing", "FACT Ann has a cat.\nFACT Ann has a dog.", "killed");
      await eventually("a capture under way", async () => asked("captor") === 1 || undefined);

      await server.kill();
      mock.answer("captor", answersFacts);
      await server.restart();
      await has("capturing", 2);
      await chat("capturing", "FACT Ann has a fish.", "after");
      await has("capturing", 3);

      assert.equal(asked("captor"), 3, "each turn was captured once more after the kill");
    });

    test("a stop during a capture is no failure: the next start captures the turn", async () => {
      const held = gate();
      mock.answer("captor", says("{", held.opened));
      await chat("capturing", "FACT Ann has a newt.", "stopped");
      await eventually("a capture under way", async () => asked("captor") === 4 || undefined);

      await server.stop();
      held.open();
      mock.answer("captor", answersFacts);
      await server.restart();
      await has("capturing", 4);
    });

    test("a kill during a consolidation merges nothing twice, and the next task merges all", async () => {
      const lines = Array.from({ length: 10 }, (_, at) => `FACT Fact ${"abcdefghij"[at]} is known.`).join("\n");
      await chat("merging", lines, "merging");
      await has("merging", 10);
      mock.answer("merger", says("{", never));
      await server.request("POST", "/tasks/consolidate_memory/run");
      await eventually("a merge under way", async () => asked("merger") === 1 || undefined);

      await server.kill();
      mock.answer("merger", { text: '{"duplicates":[[1,2,3]]}' });
      await server.restart();
      assert.equal((await stored("merging")).length, 10);
      await server.request("POST", "/tasks/consolidate_memory/run");
      await has("merging", 8);

      assert.equal((await stored("merging", "superseded")).length, 2);
    });

    test("DOCS-002 a kill during ingests leaves each document whole: the old one, or the new one if it was accepted", async () => {
      const names = ["one", "two", "three", "four", "five", "six"];
      const textOf = (name: string, version: string) => {
        const parts = Array.from({ length: 20 }, (_, at) => `${name}${version} part ${at} ${"word ".repeat(20)}`);
        return parts.join("\n\n");
      };
      const post = (name: string, version: string) => {
        const body = { title: name, text: textOf(name, version), max_chars: 128, overlap_chars: 0 };
        return server.request("POST", "/documents", { body });
      };
      const count = async (word: string): Promise<number> =>
        (await server.get(`/documents/search?q=${word}&limit=50`)).json.items.length;
      for (const name of names) await post(name, "old");
      const chunks = await count("oneold");

      const answers: { name: string; accepted: boolean }[] = [];
      const posting = names.map((name) =>
        post(name, "new").then(
          ({ status }) => answers.push({ name, accepted: status === 200 }),
          () => answers.push({ name, accepted: false }),
        ),
      );
      await Promise.race(posting);
      await server.kill();
      await Promise.all(posting);
      await server.restart();

      assert.ok(chunks >= 20);
      assert.ok(answers.some(({ accepted }) => accepted));
      for (const { name, accepted } of answers) {
        const [old, newer] = [await count(`${name}old`), await count(`${name}new`)];
        assert.ok((old === 0) !== (newer === 0), `${name}: ${old} old and ${newer} new chunks`);
        assert.equal(old + newer, chunks, name);
        if (accepted) assert.equal(old, 0, `${name} was accepted`);
      }
    });

    test("MEM-017 a restart loses the facts of the store memory, captured ones too", async () => {
      mock.answer("captor", answersFacts);
      await chat("volatile", "FACT The emu is loose.", "volatile");
      await has("volatile", 1);

      await server.stop();
      await server.restart();
      mock.answer("scripted", inTurn(calls(["recall", { query: "emu" }]), { text: "done" }));
      await chat("volatile", "go", "recalling");

      const result = shown(mock.requests.findLast(({ model }) => model === "scripted")).findLast(
        ({ role }) => role === "tool",
      );
      assert.equal(result?.content, "No memory matches.");
      await eventually("the rows are deleted", async () => (await stored("volatile")).length === 0 || undefined);
    });
  });
