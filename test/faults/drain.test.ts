// A server that receives SIGTERM in the middle of turns (decision 44: live turns get a grace, then are marked
// interrupted).
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { connect } from "node:net";
import { describe, test } from "node:test";
import { calls, gate, never, says, turn, wordsOf } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { type MockModel, startMockModel } from "../support/mock-model.ts";
import { RawConnection, rawRequest } from "../support/raw-http.ts";
import { type Env, manifestEnv, modelEnv, type ProcessServer, startServerProcess } from "../support/server.ts";
import { dialects } from "../support/stores.ts";
import { type Cleanup, cleanup } from "../support/temp.ts";
import { brief, databaseOf, skipPostgres, snapshotOf } from "./support.ts";

const shuttingDown = { error: "shutting_down", detail: "shutting_down" };

const secret = "a secret of some length";
const deploys = { tenant: "anonymous", manifest: "agent", scheme: "standard", secret: "secret:HOOK", prompt: "Go." };
const triggerEnv = { SVC_TRIGGERS: JSON.stringify({ deploys }), SVC_SECRET_HOOK: secret };

/** A delivery to the trigger, signed as Standard Webhooks specifies. */
function delivery(id: string): string {
  const at = Math.floor(Date.now() / 1000);
  const signature = createHmac("sha256", secret).update(`${id}.${at}.{}`).digest("base64");
  const lines = [`webhook-id: ${id}`, `webhook-timestamp: ${at}`, `webhook-signature: v1,${signature}`];
  return rawRequest("POST", "/triggers/deploys", lines, "{}");
}

interface Drained {
  readonly server: ProcessServer;
  readonly mock: MockModel;
}

async function start(atEnd: Cleanup, held: Promise<unknown>, env: Env): Promise<Drained> {
  const mock = await startMockModel();
  atEnd.after(() => mock.close());
  mock.answer("slow", says("first ", held, "and last"));
  const manifests = manifestEnv(atEnd, {
    agent: { model: { id: "slow" }, tools: ["trigger_event"] },
    waiting: {
      model: { id: "slow" },
      tools: ["ask_user", "calculator"],
      approvals: [{ id: "sums", tools: ["calculator"] }],
    },
    picking: {
      model: { id: "slow" },
      client_tools: [{ name: "pick", description: "Picks." }],
      delegation: { agents: [{ name: "helper" }] },
      execution: { tools: "parallel" },
    },
    brief: { model: { id: "slow" }, client_tools: [{ name: "pick", description: "Picks.", timeout_seconds: 2 }] },
    helper: { model: { id: "helper" } },
  });
  const server = await startServerProcess({
    atEnd,
    env: { ...modelEnv(mock, ["slow", "helper"]), ...manifests, ...env },
  });
  return { server, mock };
}

/** True if the server accepts no new connection. */
function isRefused({ url }: ProcessServer): Promise<boolean> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  return new Promise((resolve) => {
    socket.once("connect", () => resolve(false)).once("error", () => resolve(true));
  }).finally(() => socket.destroy()) as Promise<boolean>;
}

/** Waits for the log line, and polls over an open connection. */
async function untilDraining(server: ProcessServer): Promise<{ status: number; word: string }> {
  return eventually("draining", async () => {
    const { status, json } = await server.get("/ready");
    return json.status === "draining" ? { status, word: json.status } : undefined;
  });
}

for (const dialect of dialects) {
  for (const threads of dialect === "sqlite" ? ["1", "2"] : ["2"]) {
    describe(`SIGTERM with live turns, on ${dialect} with ${threads} http and actor threads`, {
      skip: dialect === "postgres" && skipPostgres,
    }, () => {
      const threadsEnv = { SVC_HTTP_THREADS: threads, SVC_ACTOR_THREADS: threads };

      test("every live turn ends whole, no new run starts, and the process exits with 0", async (t) => {
        const atEnd = cleanup(t);
        const held = gate();
        const database = await databaseOf(dialect, atEnd);
        const { server, mock } = await start(atEnd, held.opened, { ...threadsEnv, ...database.env });
        const streams = await Promise.all(
          ["a", "b", "c"].map((thread_id) => server.stream("/chat/stream", turn("agent", "go", { thread_id }))),
        );
        for (const stream of streams) await stream.until("text_delta");
        const stateless = await server.stream("/chat/stream", turn("agent", "go"));
        await stateless.until("text_delta");
        const json = server.post("/chat", turn("agent", "go", { thread_id: "json" }));
        const openAi = server.post("/v1/chat/completions", { ...turn("agent", "go"), model: "agent", user: "openai" });
        const listener = await server.listen("/chat/stream/a");
        await listener.until("snapshot");
        while (mock.requests.length < 6) await mock.next();
        // These connections stay open, and a draining server answers on them.
        await Promise.all(Array.from({ length: 8 }, () => server.get("/live")));

        process.kill(server.pid, "SIGTERM");
        const draining = await untilDraining(server);
        const late = await server.post("/chat", turn("agent", "late", { thread_id: "late" }));
        const alsoLate = await server.get("/chat/sessions");
        // Each thread logs the number it waits for, perhaps after another thread's answer.
        await eventually("the log says that it waits for six turns", async () => {
          const waiting = server.logs.filter(({ msg }) => msg.startsWith("waiting for running turns"));
          return waiting.reduce((sum, { turns }) => sum + Number(turns), 0) === 6;
        });
        held.open();

        assert.deepEqual(draining, { status: 503, word: "draining" });
        for (const { status, json } of [late, alsoLate]) assert.deepEqual([status, json], [503, shuttingDown]);
        for (const stream of [...streams, stateless]) {
          const frames = await stream.rest();
          assert.deepEqual(
            frames.slice(-2).map(({ name }) => name),
            ["done", "[DONE]"],
          );
          assert.equal(frames.at(-2)?.json.data.final.content, "first and last");
        }
        assert.deepEqual([(await json).status, (await json).json.final.content], [200, "first and last"]);
        assert.equal((await openAi).json.choices[0].message.content, "first and last");
        assert.match(wordsOf(await listener.rest()), /and last$/);
        assert.deepEqual(await server.exited, { code: 0, signal: null });
        assert.deepEqual(
          server.logs.filter(({ level }) => level === "error" || level === "fatal"),
          [],
        );

        await server.restart();

        for (const thread of ["a", "b", "c", "json", "openai"]) {
          const { transcript, phase } = await snapshotOf(server, thread);
          assert.deepEqual([transcript.map(brief), phase], [["user: go", "assistant: first and last"], "idle"], thread);
        }
        assert.deepEqual((await snapshotOf(server, "late")).transcript, []);
      });

      test("a request in transit is answered, or refused if it would start a run", async (t) => {
        const atEnd = cleanup(t);
        const database = await databaseOf(dialect, atEnd);
        const { server } = await start(atEnd, never, { ...threadsEnv, ...database.env, ...triggerEnv });
        const manifest = { metadata: { name: "kept" }, spec: { model: { id: "slow" } } };
        const put = rawRequest("PUT", "/manifests/kept", [], JSON.stringify({ manifest }));
        const chat = rawRequest("POST", "/chat", [], JSON.stringify(turn("agent", "late", { thread_id: "late" })));
        const requeues = rawRequest("POST", "/runs/requeue", [], "{}");
        const requeue = rawRequest("POST", "/runs/nobodys/requeue", [], "{}");
        const job = rawRequest("POST", "/jobs/nobodys/run", [], "{}");
        const sent = [put, chat, requeues, requeue, job, delivery("late")].map((request) => {
          return { request, connection: new RawConnection(server.url) };
        });
        await Promise.all(sent.map(({ request, connection }) => connection.send(request.slice(0, -1))));
        await server.get("/live");

        process.kill(server.pid, "SIGTERM");
        await eventually("draining", async () => server.logs.some(({ msg }) => msg === "draining"));
        // After the last HTTP thread has closed its listening socket, requests that start a run are refused.
        await eventually("no thread accepts connections", () => isRefused(server));
        await Promise.all(sent.map(({ request, connection }) => connection.send(request.slice(-1))));

        const answers = await Promise.all(sent.map(({ connection }) => connection.answer()));
        assert.deepEqual(
          answers.map((answer) => answer?.status),
          [200, 503, 503, 503, 503, 503],
        );
        assert.deepEqual(await server.exited, { code: 0, signal: null });

        await server.restart();

        const { items } = (await server.get("/audit?event_type=manifest_published")).json;
        assert.equal(items.length, 1);
        // A refused delivery is not remembered.
        assert.equal((await server.get("/runs")).json.items.length, 0);
        const again = new RawConnection(server.url);
        await again.send(delivery("late"));
        assert.equal((await again.answer())?.status, 202);
      });

      test("a waiting turn is suspended, its client is notified, the next process resumes it", async (t) => {
        const atEnd = cleanup(t);
        const database = await databaseOf(dialect, atEnd);
        // Longer than the test waits for the process.
        const env = { SVC_GRACEFUL_SHUTDOWN_SECONDS: "600", ...threadsEnv, ...database.env };
        const { server, mock } = await start(atEnd, never, env);
        mock.answer("slow", ({ body }) => {
          const messages = body.messages as readonly { role: string; content: string }[];
          const about = messages.findLast(({ role }) => role === "user")?.content ?? "";
          const call = about === "ask" ? ["ask_user", { question: "Which?" }] : ["calculator", { expression: about }];
          return messages.at(-1)?.role === "tool" ? { text: "Done." } : calls(call as [string, object]);
        });
        const headers = { "idempotency-key": "k" };
        const send = (route: string, thread_id: string, text: string) =>
          server.post(route, turn("waiting", text, { thread_id }), { headers });
        const asks = turn("waiting", "ask", { thread_id: "asks" });
        const stream = await server.stream("/chat/stream", asks, { headers });
        await stream.until("ui_request");
        const json = send("/chat", "gated", "6*7");
        const questionOn = (thread: string) =>
          eventually(`a question on ${thread}`, async () => {
            const { openQuestions } = (await server.get(`/chat/sessions/${thread}`)).json;
            return openQuestions[0]?.data;
          });
        const { approval_id } = await questionOn("gated");

        process.kill(server.pid, "SIGTERM");
        const exit = await server.exited;
        const frames = await stream.rest();
        const answer = await json;
        await server.restart();
        const resent = [
          ["/chat/stream", "asks", "ask"],
          ["/chat", "gated", "6*7"],
        ] as const;
        const inProgress = await Promise.all(resent.map(([route, thread, text]) => send(route, thread, text)));
        const { request_id } = await questionOn("asks");
        await server.post("/chat/ui", { thread_id: "asks", request_id, value: "this" });
        await server.post(`/approvals/${approval_id}/decide`, { decision: "approved" });
        const replays = await Promise.all(
          resent.map(([route, thread, text]) =>
            eventually(`the end of ${thread}`, async () => {
              const again = await send(route, thread, text);
              return again.status === 409 ? undefined : again;
            }),
          ),
        );

        assert.deepEqual(exit, { code: 0, signal: null });
        assert.deepEqual(
          frames.slice(-2).map(({ name, json }) => json?.error?.message.split(" ")[0] ?? name),
          ["shutting_down", "[DONE]"],
        );
        assert.deepEqual([answer.status, answer.json], [503, shuttingDown]);
        for (const { status, json } of inProgress)
          assert.deepEqual([status, json.error], [409, "idempotency_in_progress"]);
        for (const { status, headers, text } of replays) {
          assert.deepEqual([status, headers["idempotent-replayed"]], [200, "true"]);
          assert.match(text, /Done\./);
          assert.doesNotMatch(text, /shutting_down|run_interrupted/);
        }
      });

      test("a turn waiting for its client suspends after its other calls, or gets the grace", async (t) => {
        const atEnd = cleanup(t);
        const held = gate();
        const database = await databaseOf(dialect, atEnd);
        // Longer than the test waits for the process.
        const env = { SVC_GRACEFUL_SHUTDOWN_SECONDS: "600", ...threadsEnv, ...database.env };
        const { server, mock } = await start(atEnd, never, env);
        mock.answer("helper", says("first ", held.opened, "and last"));
        const task = ["task", { agent: "helper", prompt: "Help." }] as const;
        mock.answer("slow", ({ body }) => {
          const messages = body.messages as readonly { role: string; content: string }[];
          if (messages.at(-1)?.role === "tool") return { text: "Done." };
          const isBeside = messages.findLast(({ role }) => role === "user")?.content === "beside";
          return isBeside ? calls(["pick", {}], task) : calls(["pick", {}]);
        });
        const ask = (manifest: string, text: string, fields: object = {}) =>
          server.stream("/chat/stream", turn(manifest, text, fields));
        const [alone, beside, stateless] = await Promise.all([
          ask("picking", "alone", { thread_id: "alone" }),
          ask("picking", "beside", { thread_id: "beside" }),
          ask("brief", "alone"),
        ]);
        const ids = await Promise.all(
          [alone, beside, stateless].map(async (stream) => (await stream.until("tool_request")).json.data.id),
        );
        await eventually("the task", async () => mock.requests.some(({ model }) => model === "helper") || undefined);

        process.kill(server.pid, "SIGTERM");
        const left = [await alone.rest(), await stateless.rest()];
        const wasRunning = server.isRunning;
        held.open();
        left.push(await beside.rest());
        const exit = await server.exited;
        await server.restart();
        const answered = await Promise.all(
          ["alone", "beside"].map((thread_id, at) =>
            server.post("/chat/tool_result", { thread_id, tool_call_id: ids[at], content: "this" }),
          ),
        );
        const logs = await Promise.all(
          ["alone", "beside"].map((thread) =>
            eventually(`the end of ${thread}`, async () => {
              const { transcript, phase } = await snapshotOf(server, thread);
              return phase === "idle" ? transcript : undefined;
            }),
          ),
        );

        assert.ok(wasRunning, "it waits for the task");
        assert.deepEqual(exit, { code: 0, signal: null });
        assert.deepEqual(
          left.map((frames) => frames.slice(-2).map(({ name, json }) => json?.error?.message.split(" ")[0] ?? name)),
          [
            ["shutting_down", "[DONE]"],
            ["done", "[DONE]"],
            ["shutting_down", "[DONE]"],
          ],
        );
        for (const { json } of answered) assert.equal(json.signaled, true);
        const results = logs.map((log) =>
          log.filter(({ kind }) => kind === "tool_result").map(({ content }) => content),
        );
        assert.deepEqual(results[0], ["this"]);
        assert.deepEqual(results[1]?.toSorted(), ["first and last", "this"]);
        for (const log of logs) assert.equal(log.map(brief).at(-1), "assistant: Done.");
        assert.equal(mock.requests.filter(({ model }) => model === "helper").length, 1);
      });

      test("a turn beyond the grace is marked interrupted, and its thread can continue", async (t) => {
        const atEnd = cleanup(t);
        const database = await databaseOf(dialect, atEnd);
        const env = { SVC_GRACEFUL_SHUTDOWN_SECONDS: "0.3", ...threadsEnv, ...database.env };
        const { server, mock } = await start(atEnd, never, env);
        const stream = await server.stream("/chat/stream", turn("agent", "go", { thread_id: "stream" }));
        await stream.until("text_delta");
        const json = server.post("/chat", turn("agent", "go", { thread_id: "json" }));
        while (mock.requests.length < 2) await mock.next();

        process.kill(server.pid, "SIGTERM");
        const exit = await server.exited;
        const frames = await stream.rest();
        const answer = await json;

        assert.deepEqual(exit, { code: 0, signal: null });
        assert.deepEqual(
          frames.slice(-2).map(({ name }) => name),
          ["error", "[DONE]"],
        );
        assert.equal(frames.at(-2)?.json.error.type, "stream_error");
        assert.deepEqual([answer.status, answer.json], [503, shuttingDown]);
        assert.deepEqual(
          server.logs.filter(({ level }) => level === "error" || level === "fatal"),
          [],
        );

        mock.answer("slow", says("taken on"));
        await server.restart();

        for (const thread of ["stream", "json"]) {
          const { transcript, phase } = await snapshotOf(server, thread);
          assert.equal(phase, "idle");
          const events = transcript.map(brief).filter((event) => event !== "assistant: first ");
          assert.deepEqual(events, ["user: go", "run_interrupted"], thread);
          assert.equal(transcript.at(-1)?.metadata.reason, "shutdown");
        }
        const taken = await server.post("/chat/continue", { thread_id: "stream", manifest: "agent" });
        assert.deepEqual([taken.status, taken.json.final?.content], [200, "taken on"]);
      });
    });
  }
}
