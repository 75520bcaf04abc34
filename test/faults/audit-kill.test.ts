// The audit of a server that is killed: sealed rows stay, and rows in memory return from the logs of the runs.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, framesUntil, gate, inTurn, never, says, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { dialects } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";
import { databaseOf, orLost, skipPostgres, untilCut } from "./support.ts";

const sum = ["calculator", { expression: "6*7" }] as const;

interface Row {
  readonly id: string;
  readonly event_type: string;
  readonly status: string;
  readonly manifest_id: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

for (const dialect of dialects) {
  describe(`the audit and SIGKILL, on ${dialect}`, { skip: dialect === "postgres" && skipPostgres }, () => {
    const atEnd = cleanup();
    let server: ProcessServer;
    let mock: MockModel;
    let sealed: { readonly rows: readonly Row[]; readonly head: { readonly seq: number; readonly hash: string } };

    /** The rows of a thread, oldest first. */
    const rowsOf = async (thread: string): Promise<Row[]> => {
      const flushed = await server.post("/tasks/flush_audit/run", undefined);
      assert.equal(flushed.status, 200, flushed.text);
      const { json } = await server.get("/audit?limit=500");
      return (json.items as Row[]).filter(({ payload }) => payload.thread_id === `default:${thread}`).toReversed();
    };
    const brief = ({ event_type, status, payload }: Row) =>
      [event_type, status, payload.tool ?? payload.user_input ?? payload.stop_reason].join(" ");
    const ask = async (manifest: string, thread_id: string, text: string) => {
      const { status, text: answer } = await server.post("/chat", turn(manifest, text, { thread_id }));
      assert.equal(status, 200, answer);
    };

    before(async () => {
      mock = await startMockModel();
      atEnd.after(() => mock.close());
      const database = await databaseOf(dialect, atEnd);
      server = await startServerProcess({
        atEnd,
        env: {
          ...modelEnv(mock, ["scripted", "live", "durable"]),
          ...manifestEnv(atEnd, {
            agent: { tools: ["calculator"] },
            refused: { tools: ["calculator"], limits: { max_tool_calls: 1 } },
            live: { tools: ["calculator"], model: { id: "live" } },
            durable: { tools: ["calculator"], model: { id: "durable" }, execution: { mode: "durable" } },
          }),
          // Rows are written when a test asks for it.
          SVC_AUDIT_FLUSH_SECONDS: "600",
          ...database.env,
        },
      });
      mock.answer("scripted", inTurn(calls(sum), says("42.")));
      await ask("agent", "sealed", "one");
      const rows = await rowsOf("sealed");
      const head = await eventually("a seal", async () => {
        const { json } = await server.get("/audit/head");
        return rows.length === 3 && json.seq >= rows.length ? json : undefined;
      });
      sealed = { rows, head };

      // The rows of all that follows are in memory when the server is killed.
      mock.answer("scripted", inTurn(calls(sum), calls(["calculator", { expression: "1+" }]), says("42.")));
      await ask("agent", "lost", "two");
      mock.answer("scripted", inTurn(calls(sum), calls(sum), says("No.")));
      await ask("refused", "denied", "three");
      mock.answer("live", inTurn(calls(sum), says("Yes", never)));
      const live = await server.stream("/chat/stream", turn("live", "four", { thread_id: "live" }));
      await framesUntil(live, ({ name }) => name === "text_delta");
      const steered = await server.post("/chat/steer", { thread_id: "live", text: "five" });
      assert.equal(steered.status, 200, steered.text);
      const held = gate();
      mock.answer("durable", inTurn(calls(sum), says(held.opened, "Done.")));
      const durable = orLost(server.post("/chat", turn("durable", "six", { thread_id: "durable" })));
      await eventually("the second call of the durable run", async () => {
        return mock.requests.filter(({ model }) => model === "durable").length >= 2 || undefined;
      });
      const gone = untilCut(live);
      await server.kill();
      await Promise.all([gone, durable]);
      held.open();
      await server.restart();
    });

    test("AUDIT-001 each row that was sealed is there, and the chain continues from its head", async () => {
      const rows = await rowsOf("sealed");
      const { json } = await server.get("/audit/verify");

      assert.deepEqual(rows, sealed.rows);
      assert.equal(json.ok, true, JSON.stringify(json));
      assert.ok(json.head.seq >= sealed.head.seq, JSON.stringify(json));
    });

    test("AUDIT-001 rows in memory are restored from the log: messages, calls, denials and replies", async () => {
      const lost = await rowsOf("lost");
      const denied = await rowsOf("denied");
      const live = await rowsOf("live");

      assert.deepEqual(lost.map(brief), [
        "user_input ok two",
        "tool_call ok calculator",
        "tool_call error calculator",
        "final_response ok end_turn",
      ]);
      assert.ok(lost.every(({ payload, manifest_id }) => payload.restored === true && manifest_id === "agent"));
      assert.deepEqual(denied.map(brief), [
        "user_input ok three",
        "tool_call ok calculator",
        "policy_deny denied calculator",
        "final_response ok end_turn",
      ]);
      assert.equal(denied[2]?.payload.control, "limits");
      assert.deepEqual(live.map(brief), ["user_input ok four", "tool_call ok calculator"]);
    });

    test("AUDIT-001 a durable run that continues has one row for each of its steps", async () => {
      const rows = await eventually("the end of the durable run", async () => {
        const found = await rowsOf("durable");
        return found.some(({ event_type }) => event_type === "final_response") ? found : undefined;
      });

      const made = rows.filter(({ event_type }) => event_type === "tool_call");
      assert.deepEqual(made.map(brief), ["tool_call ok calculator"]);
      assert.equal(made[0]?.payload.restored, true);
    });

    test("AUDIT-001 another kill restores no row twice", async () => {
      const before = await rowsOf("lost");
      await server.kill();
      await server.restart();

      const after = await rowsOf("lost");
      assert.deepEqual(after, before);
    });
  });
}
