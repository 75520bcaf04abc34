// Background tasks whose server is killed during their work, on both engines. See actors/run/child-runs/background-tasks.ts.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, never, says, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { apiKeys, manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { gateDialects } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";
import { databaseOf, skipPostgres } from "./support.ts";

const { env, keys } = apiKeys({ alice: { scopes: ["*"] } });
const beside = (agent: string) => ["task", { agent, prompt: "Do it.", background: true }] as const;
const words = 30;

for (const dialect of gateDialects) {
  describe(`background tasks and SIGKILL, on ${dialect}`, {
    skip: dialect === "postgres" && skipPostgres,
  }, () => {
    const atEnd = cleanup();
    const alice = { key: keys.alice };
    let server: ProcessServer;
    let mock: MockModel;
    before(async () => {
      mock = await startMockModel();
      atEnd.after(() => mock.close());
      const database = await databaseOf(dialect, atEnd);
      const delegation = { agents: [{ name: "helper" }, { name: "second" }], background: true };
      server = await startServerProcess({
        atEnd,
        env: {
          ...modelEnv(mock, ["boss", "worker", "other"]),
          ...manifestEnv(atEnd, {
            lead: { delegation, execution: { tools: "parallel" }, limits: { max_output_tokens: 20_000 } },
            helper: { model: { id: "worker" }, tools: ["calculator"] },
            second: { model: { id: "other" } },
          }),
          ...env,
          ...database.env,
        },
      });
    });

    const asked = (model: string) => mock.requests.filter((request) => request.model === model).length;
    // biome-ignore lint/suspicious/noExplicitAny: looked into field by field
    const runs = async (): Promise<any[]> => (await server.get("/runs", alice)).json.items;

    test("DEL-006 tasks survive three kills, end once each, and release their reservations", async () => {
      const sum = ["calculator", { expression: "6*7" }] as const;
      mock.answer("boss", inTurn(calls(beside("helper"), beside("second"), beside("second")), says("Begun.", never)));
      mock.answer("worker", inTurn(calls(sum), says("word", never)));
      mock.answer("other", says("word", never));
      const stream = await server.stream("/chat/stream", turn("lead", "go", { thread_id: "killed" }), alice);
      await stream.until("text_delta");

      for (let kill = 1; kill <= 3; kill++) {
        const others = asked("other");
        // If each kill leaked its reservations, the third start would find no budget left.
        if (kill === 1) await eventually("calls under way", async () => asked("other") === 2 || undefined);
        await eventually("its last call", async () => asked("worker") === kill + 1 || undefined);
        await server.kill();
        if (kill === 3) {
          mock.answer("worker", inTurn(calls(sum), says("word ".repeat(words))));
          mock.answer("other", says("word ".repeat(words)));
        }
        await server.restart();
        await eventually("calls again", async () => asked("other") >= others + 2 || undefined);
      }
      const ended = await eventually("the end of all", async () => {
        const found = await runs();
        return found.every(({ ended_at }) => ended_at !== null) ? found : undefined;
      });

      assert.deepEqual(
        ended.map(({ status }) => status),
        ["completed", "completed", "completed"],
      );
      const helper = ended.find(({ manifest_id }) => manifest_id === "helper");
      const { messages } = (await server.get(`/chat/history/${helper.thread_id.split(":")[1]}`, alice)).json;
      assert.equal(messages.filter(({ role }: { role: string }) => role === "tool").length, 1, "a result once");
      const { items } = (await server.get("/usage?thread_id=killed&limit=200", alice)).json;
      const written = items.reduce((all: number, row: { tokens_output: number }) => all + row.tokens_output, 0);
      assert.ok(written >= 3 * words && written < 5 * words, `${written} tokens, each answer billed once`);
    });
  });
}
