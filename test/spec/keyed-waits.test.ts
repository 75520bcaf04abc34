// Idempotency-Key of a turn that waits for a person: the client may disconnect and the server may restart.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { databaseOf, skipPostgres } from "../faults/support.ts";
import { calls, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { Answer } from "../support/http-client.ts";
import { FrameReader } from "../support/sse-frames.ts";
import { gateDialects } from "../support/stores.ts";
import { cleanup } from "../support/temp.ts";

const gated = { tools: ["calculator"], approvals: [{ id: "sums", tools: ["calculator"] }] };
/** Each manifest with the call its model makes. Sums differ, because equal sums would share an approval request. */
const waits = {
  clicks: () => ["click", {}],
  asks: () => ["ask_user", { question: "Which?" }],
  gated: (expression: string) => ["calculator", { expression }],
  lasting: (expression: string) => ["calculator", { expression }],
  delegates: (prompt: string) => ["task", { agent: "gated", prompt }],
} satisfies Record<string, (asked: string) => readonly [name: string, args: object]>;
type Manifest = keyof typeof waits;
/** A client of POST /chat cannot be asked questions, so only waits that other people answer apply there. */
const cases: readonly (readonly [route: "/chat/stream" | "/chat", manifest: Manifest])[] = [
  ...(["clicks", "asks", "gated", "delegates"] as const).map((manifest) => ["/chat/stream", manifest] as const),
  ...(["gated", "delegates"] as const).map((manifest) => ["/chat", manifest] as const),
];

const replayed = ({ status, headers }: Answer) => [status, headers["idempotent-replayed"]];

/** Returns an answer without the values that differ between two equal turns. */
function alike({ text }: Answer, thread: string): unknown {
  return JSON.parse(text.replaceAll(`:${thread}"`, ':thread"').replace(/\d+\*0/g, "n*0"), (name, value) =>
    ["leaf_id", "approval_id", "id", "tool_call_id", "expires_at"].includes(name) ? name : value,
  );
}

for (const dialect of gateDialects)
  describe(`Idempotency-Key of turns that wait, on ${dialect}`, {
    skip: dialect === "postgres" && skipPostgres,
  }, () => {
    const atEnd = cleanup();

    test("IDEM-008 IDEM-011 IDEM-013 a turn that waits keeps its key over a restart, then is replayed", async () => {
      const database = await databaseOf(dialect, atEnd);
      const { server, mock } = await startChatProcess(atEnd, {
        models: [...Object.keys(waits)],
        manifests: {
          clicks: { model: { id: "clicks" }, client_tools: [{ name: "click", timeout_seconds: 600 }] },
          asks: { model: { id: "asks" }, tools: ["ask_user"] },
          gated: { model: { id: "gated" }, ...gated },
          lasting: { model: { id: "lasting" }, ...gated, execution: { mode: "durable" } },
          delegates: { model: { id: "delegates" }, delegation: { agents: [{ name: "gated" }] } },
        },
        // Keys claimed before the restart would expire before it ends.
        env: { ...database.env, SVC_IDEMPOTENCY_TTL_SECONDS: "0.001" },
      });
      for (const model of Object.keys(waits) as Manifest[])
        mock.answer(model, ({ body }) => {
          const messages = body.messages as readonly { role: string; content: string }[];
          if (messages.at(-1)?.role === "tool") return { text: `${model} done.` };
          return calls(waits[model](messages.findLast(({ role }) => role === "user")?.content ?? ""));
        });
      const turns = cases.map(([route, manifest], at) => {
        const thread = `${manifest}${route.replaceAll("/", "-")}`;
        const headers = { "idempotency-key": thread };
        return { route, manifest, thread, headers, body: turn(manifest, `${at}*0`, { thread_id: thread }) };
      });
      type Turn = (typeof turns)[number];
      const send = ({ route, body, headers }: Turn): Promise<Answer> => server.post(route, body, { headers });
      const questionOn = (thread: string) =>
        eventually(`a question on ${thread}`, async () => {
          const { openQuestions } = (await server.get(`/chat/sessions/${thread}`)).json;
          return openQuestions[0];
        });
      async function answerOn(thread: string): Promise<void> {
        const { event, data } = await questionOn(thread);
        if (event === "approval_required")
          await server.post(`/approvals/${data.approval_id}/decide`, { decision: "approved" });
        else if (event === "ui_request")
          await server.post("/chat/ui", { thread_id: thread, request_id: data.request_id, value: "this" });
        else await server.post("/chat/tool_result", { thread_id: thread, tool_call_id: data.id, content: "clicked" });
      }
      // Uninterrupted turns, to compare the others with.
      const whole = new Map<string, Answer>();
      for (const { route, manifest } of turns) {
        if (route !== "/chat") continue;
        const thread = `whole-${manifest}`;
        const answer = server.post(route, turn(manifest, `${whole.size + turns.length}*0`, { thread_id: thread }));
        await answerOn(thread);
        whole.set(manifest, await answer);
      }
      const lasting = () =>
        server.post("/chat", turn("lasting", "100*0", { thread_id: "lasting" }), {
          headers: { "idempotency-key": "lasting" },
        });
      for (const each of turns) void send(each).catch(() => {});
      const accepted = await lasting();
      for (const { thread } of [...turns, { thread: "lasting" }]) await questionOn(thread);
      // Two more runs are tasks, and one is the durable run.
      await eventually("runs that are put aside", async () => {
        const aside = await database.rows("SELECT 1 AS run FROM runs WHERE status = 'waiting'", server.dataDir);
        return aside.length === turns.length + 3 || undefined;
      });
      const waiting = await Promise.all(turns.map(send));
      const asked = mock.requests.length;

      await server.kill();
      await server.restart({ SVC_IDEMPOTENCY_TTL_SECONDS: "86400" });
      for (const { thread } of turns) await questionOn(thread);
      const joined = await lasting();
      const still = await Promise.all(turns.map(send));
      const inProgress = Array.from(turns, () => [409, "idempotency_in_progress"]);
      for (const refused of [waiting, still])
        assert.deepEqual(
          refused.map(({ status, json }) => [status, json.error]),
          inProgress,
        );
      for (const { thread } of [...turns, { thread: "lasting" }]) await answerOn(thread);
      const again = await Promise.all(
        turns.map((each) =>
          eventually(`the end of ${each.thread}`, async () => {
            const answer = await send(each);
            return answer.status === 409 ? undefined : answer;
          }),
        ),
      );

      const { resume_token } = accepted.json;
      await eventually("the end of the durable run", async () => {
        const { status } = (await server.get(`/chat/runs/${resume_token}`)).json;
        return status === "completed" || undefined;
      });
      const ended = await lasting();

      assert.deepEqual([accepted, joined, ended].map(replayed), [
        [202, undefined],
        [202, "true"],
        [202, "true"],
      ]);
      for (const { json } of [joined, ended]) assert.equal(json.resume_token, resume_token);
      // Each turn makes one more model call after its answer, and so do the two tasks and the durable run.
      assert.equal(mock.requests.length - asked, turns.length + 3);
      for (const [at, each] of turns.entries()) {
        const answer = again[at] as Answer;
        assert.deepEqual(replayed(answer), [200, "true"], each.thread);
        const { transcript } = (await server.get(`/chat/sessions/${each.thread}`)).json;
        assert.equal(transcript.filter(({ role }: { role: string }) => role === "user").length, 1);
        if (each.route === "/chat") {
          assert.deepEqual(
            alike(answer, each.thread),
            alike(whole.get(each.manifest) as Answer, `whole-${each.manifest}`),
          );
          assert.deepEqual(answer.json.leaf_id, transcript.at(-1).id);
        } else {
          const frames = new FrameReader().push(answer.text);
          assert.deepEqual(
            frames.map(({ name, json }) => (name === "session_event" ? json.data.seq : name)),
            [...transcript.map(({ seq }: { seq: number }) => seq), "[DONE]"],
          );
          assert.equal(frames.at(-2)?.json.data.content, `${each.manifest} done.`);
        }
      }
    });
  });
