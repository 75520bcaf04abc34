// Calls with arguments that a person has edited: the model, later turns and the frames show the executed arguments, on
// both engines and after a kill.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { apiKeys, manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { gateDialects } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";
import { databaseOf, skipPostgres } from "./support.ts";

const { env, keys } = apiKeys({ alice: { scopes: ["*"] } });
const rule = { id: "sums", ttl_seconds: 600 };
const gate = { tools: ["calculator"], approvals: [{ ...rule, tools: ["calculator"] }] };
const secret = "a-known-secret-0123456789";

for (const dialect of gateDialects) {
  describe(`edited arguments, on ${dialect}`, { skip: dialect === "postgres" && skipPostgres }, () => {
    const atEnd = cleanup();
    const alice = { key: keys.alice };
    let server: ProcessServer;
    let mock: MockModel;
    let sums = 0;
    before(async () => {
      mock = await startMockModel();
      atEnd.after(() => mock.close());
      const database = await databaseOf(dialect, atEnd);
      server = await startServerProcess({
        atEnd,
        env: {
          ...modelEnv(mock, ["gated", "lead", "clicks"]),
          ...manifestEnv(atEnd, {
            gated: gate,
            lasting: { ...gate, execution: { mode: "durable" } },
            lead: { model: { id: "lead" }, delegation: { agents: [{ name: "gated" }] } },
            team: { model: { id: "lead" }, pattern: "parallel", sub_agents: ["gated"] },
            clicks: {
              model: { id: "clicks" },
              client_tools: [
                { name: "click", args_schema: { type: "object", properties: { at: { type: "string" } } } },
              ],
              approvals: [{ ...rule, tools: ["click"] }],
            },
          }),
          ...env,
          ...database.env,
          SVC_SECRET_KNOWN: secret,
        },
      });
    });

    const sum = () => 1000 + ++sums;
    const asks = (number: number, times = 1) =>
      inTurn(...Array.from({ length: times }, () => calls(["calculator", { expression: `1+${number}` }])), {
        text: "Done.",
      });
    const named = (args: object, text: string) =>
      `[run with arguments that a person has edited: ${JSON.stringify(args)}]\n${text}`;
    async function decide(id: string, edited_args: object): Promise<void> {
      const { status, text } = await server.post(
        `/approvals/${id}/decide`,
        { decision: "approved", edited_args },
        alice,
      );
      assert.equal(status, 200, text);
    }
    /** Arguments that replace the model's, and the text about them that the model reads. */
    function edit(): { edited: { expression: string }; told: string } {
      const number = sum();
      const edited = { expression: `2+${number}` };
      return { edited, told: named(edited, String(2 + number)) };
    }
    /** The tool results in a model's last request. */
    const read = (model: string): string[] => {
      const messages = mock.requests.findLast((request) => request.model === model)?.body.messages;
      return (messages as { role: string; content: string }[])
        .filter(({ role }) => role === "tool")
        .map(({ content }) => content);
    };

    for (const thread of [null, "streamed"])
      test(`APPR-021 frames and results name edited arguments, of repeated calls too (thread: ${thread})`, async () => {
        const { edited, told } = edit();
        mock.answer("gated", asks(sum(), 2));
        const fields = thread === null ? {} : { thread_id: thread };
        const stream = await server.stream("/chat/stream", turn("gated", "go", fields), alice);
        const { json } = await stream.until("approval_required");
        await decide(json.data.approval_id, edited);
        const frames = await stream.rest();

        const of = (name: string) => frames.filter((frame) => frame.name === name).map((frame) => frame.json.data);
        assert.deepEqual(
          of("tool_start").map(({ input }) => input),
          [edited, edited],
        );
        assert.deepEqual(
          of("tool_end").map(({ output }) => output),
          [told, told],
        );
        assert.deepEqual(read("gated"), [told, told]);
        if (thread === null) return;

        mock.answer("gated", { text: "Later." });
        await server.post("/chat", turn("gated", "And now?", fields), alice);

        assert.deepEqual(read("gated"), [told, told]);
      });

    test("APPR-021 a client tool's result names edited arguments", async () => {
      mock.answer("clicks", inTurn(calls(["click", { at: "here" }]), { text: "Done." }));
      const stream = await server.stream("/chat/stream", turn("clicks", "go", { thread_id: "clicks" }), alice);
      const { json } = await stream.until("approval_required");
      await decide(json.data.approval_id, { at: secret });
      const { id: tool_call_id, args } = (await stream.until("tool_request")).json.data;
      const given = { thread_id: "clicks", tool_call_id, content: "Clicked." };
      assert.equal((await server.post("/chat/tool_result", given, alice)).json.signaled, true);
      await stream.rest();

      assert.deepEqual(args, { at: secret });
      assert.deepEqual(read("clicks"), [named({ at: "[REDACTED]" }, "Clicked.")]);
    });

    test("APPR-021 a member of parallel reads edited arguments", async () => {
      const { edited, told } = edit();
      mock.answer("gated", asks(sum()));
      mock.answer("lead", { text: "Done." });
      const stream = await server.stream("/chat/stream", turn("team", "go", { thread_id: "team" }), alice);
      const { json } = await stream.until("approval_required");
      await decide(json.data.approval_id, edited);
      await stream.rest();

      assert.deepEqual(read("gated"), [told]);
    });

    test("APPR-021 the next process has edited arguments of transient, durable and task runs", async () => {
      const waiting: string[] = [];
      mock.answer("lead", inTurn(calls(["task", { agent: "gated", prompt: "Do it." }]), { text: "Done." }));
      for (const manifest of ["gated", "lasting", "lead"]) {
        mock.answer("gated", asks(sum()));
        const asking = server.post("/chat", turn(manifest, "go", { thread_id: `over-${manifest}` }), alice);
        asking.catch(() => {});
        const { items } = await eventually("a request", async () => {
          const { json } = await server.get("/approvals?status=pending", alice);
          return json.items.length === waiting.length + 1 ? json : undefined;
        });
        waiting.push(items[0].approval_id);
      }
      await eventually("runs that are suspended", async () => {
        const { text } = await server.get("/metrics", alice);
        return /^svc_live_runs 0$/m.test(text) || undefined;
      });

      await server.kill();
      await server.restart();
      for (const id of waiting) {
        const { edited, told } = edit();
        const before = mock.requests.filter(({ model }) => model === "gated").length;
        await decide(id, edited);
        await eventually("the next call of the model", async () => {
          return mock.requests.filter(({ model }) => model === "gated").length > before || undefined;
        });

        assert.deepEqual(read("gated"), [told]);
      }
    });
  });
}
