// Idempotency-Key on /v1/chat/completions and /v1/responses: whole, streamed, stateless, on a thread, durable, and
// after a restart.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { databaseOf, skipPostgres } from "../../faults/support.ts";
import { calls, gate, inTurn, says, startChat } from "../../support/chat.ts";
import { eventually } from "../../support/eventually.ts";
import type { Answer } from "../../support/http-client.ts";
import { failure } from "../../support/mock-model/behaviours.ts";
import type { MockModel } from "../../support/mock-model.ts";
import { apiKeys, type TestServer } from "../../support/server.ts";
import { gateDialects } from "../../support/stores.ts";
import { cleanup } from "../../support/temp.ts";

const { env: keyed, keys } = apiKeys({
  ann: { scopes: ["*"] },
  bo: { scopes: ["*"] },
  rival: { tenant_id: "rival", sub: "ann", scopes: ["*"] },
});
const weather = { name: "weather", description: "The weather.", parameters: { type: "object", properties: {} } };

interface Form {
  readonly name: string;
  readonly path: string;
  readonly body: (manifest: string, text: string) => object;
}

const completion = (fields: object) => (model: string, text: string) => ({
  model,
  messages: [{ role: "user", content: text }],
  ...fields,
});
const response = (fields: object) => (model: string, input: string) => ({ model, input, ...fields });
const forms: readonly Form[] = [
  { name: "a completion", path: "/v1/chat/completions", body: completion({}) },
  { name: "a completion on a thread", path: "/v1/chat/completions", body: completion({ user: "whole" }) },
  {
    name: "a streamed completion",
    path: "/v1/chat/completions",
    body: completion({ user: "streamed", stream: true, stream_options: { include_usage: true } }),
  },
  { name: "a response", path: "/v1/responses", body: response({}) },
  { name: "a response that is not stored", path: "/v1/responses", body: response({ store: false }) },
  { name: "a streamed response", path: "/v1/responses", body: response({ stream: true }) },
];

for (const dialect of gateDialects)
  describe(`Idempotency-Key on /v1, on ${dialect}`, { skip: dialect === "postgres" && skipPostgres }, () => {
    const atEnd = cleanup();
    let server: TestServer;
    let mock: MockModel;
    before(async () => {
      const database = await databaseOf(dialect, atEnd);
      const tools = ["calculator"];
      ({ server, mock } = await startChat(atEnd, {
        models: ["says", "held", "acts", "reads", "hands"],
        manifests: {
          says: { model: { id: "says" }, tools },
          durable: { model: { id: "says" }, tools, execution: { mode: "durable" } },
          held: { model: { id: "held" } },
          acts: { model: { id: "acts" }, tools, tool_effects: { calculator: "once" } },
          reads: { model: { id: "reads" }, tools },
          hands: { model: { id: "hands" } },
        },
        env: { ...keyed, ...database.env },
      }));
      const call = calls(["calculator", { expression: "6*7" }]);
      mock.answer(
        "says",
        inTurn({ reasoning: ["Let me see."], ...call }, { reasoning: ["So."], text: ["It is", " 42."] }),
      );
      const endsOnTool = (messages: unknown): boolean => (messages as { role: string }[]).at(-1)?.role === "tool";
      for (const model of ["acts", "reads"])
        mock.answer(model, ({ body }) => (endsOnTool(body.messages) ? failure(400) : call));
      mock.answer("hands", calls(["weather", {}]));
    });

    const send = (path: string, key: string, body: object, as: string = keys.ann): Promise<Answer> =>
      server.post(path, body, { key: as, headers: { "idempotency-key": key } });
    const replayed = ({ headers }: Answer) => headers["idempotent-replayed"];
    const code = ({ status, json }: Answer) => [status, json.error?.code];
    /** The content of an answer: the body, or the joined deltas of a stream. */
    const told = (answer: Answer): unknown => (answer.text.startsWith("{") ? answer.json : readStream(answer.text));

    const sent: { readonly path: string; readonly key: string; readonly body: object; readonly first: Answer }[] = [];
    const sameAgain = async ({ path, key, body, first }: (typeof sent)[number]): Promise<void> => {
      const again = await send(path, key, body);

      assert.deepEqual([again.status, replayed(again)], [200, "true"], key);
      assert.deepEqual(told(again), told(first), key);
      for (const header of ["content-type", "x-svc-thread-id"])
        assert.equal(again.headers[header], first.headers[header], key);
    };
    for (const manifest of ["says", "durable"])
      for (const { name, path, body: bodyOf } of forms)
        test(`${name} of ${manifest} that is repeated has the same answer, and runs nothing`, async () => {
          const key = `same ${manifest} ${name}`.replaceAll(" ", "-");
          const body = bodyOf(manifest, "go");
          const first = await send(path, key, body);
          const calledBefore = mock.requests.length;

          assert.deepEqual([first.status, replayed(first)], [200, undefined], first.text);
          sent.push({ path, key, body, first });
          await sameAgain({ path, key, body, first });
          assert.equal(mock.requests.length, calledBefore);
        });

    test("all of them have the same answer again after a restart", async () => {
      const calledBefore = mock.requests.length;
      await server.restart();

      for (const request of sent) await sameAgain(request);

      assert.deepEqual([sent.length, mock.requests.length], [2 * forms.length, calledBefore]);
    });

    test("a call for the client is in the repeated answer too, whole and streamed", async () => {
      const functions = [{ type: "function", function: weather }];
      for (const stream of [false, true]) {
        const body = completion({ user: `handed-${stream}`, stream, tools: functions })("hands", "go");
        const first = await send("/v1/chat/completions", `handed-${stream}`, body);
        const second = await send("/v1/chat/completions", `handed-${stream}`, body);

        assert.match(first.text, /"name":"weather"/);
        assert.equal(replayed(second), "true");
        assert.deepEqual(told(second), told(first));
      }
    });

    test("a background response is accepted once, and continued once", async () => {
      const background = response({ background: true })("says", "go");
      const accepted = await send("/v1/responses", "background", background);
      const again = await send("/v1/responses", "background", background);
      const first = await send("/v1/responses", "chain-1", response({})("says", "go"));
      const next = response({ previous_response_id: first.json.id })("says", "and?");
      const second = await send("/v1/responses", "chain-2", next);
      const sessions = await server.get("/chat/sessions?limit=100", { key: keys.ann });

      const third = await send("/v1/responses", "chain-2", next);

      assert.deepEqual([again.status, replayed(again), again.json.id], [200, "true", accepted.json.id]);
      assert.equal(again.headers["x-svc-thread-id"], accepted.headers["x-svc-thread-id"]);
      assert.deepEqual([third.status, replayed(third), third.json], [200, "true", second.json]);
      assert.equal(second.json.id.slice(0, 37), first.json.id.slice(0, 37), "it goes on in the same thread");
      const after = await server.get("/chat/sessions?limit=100", { key: keys.ann });
      assert.equal(after.json.items.length, sessions.json.items.length);
    });

    for (const { name, path, body } of forms) {
      test(`${name} that failed after a changing call fails again alike and runs nothing`, async () => {
        const key = `acted ${name}`.replaceAll(" ", "-");
        const first = await send(path, key, body("acts", "go"));
        const calledBefore = mock.requests.length;

        const second = await send(path, key, body("acts", "go"));

        const isStream = name.includes("streamed");
        const status = isStream ? 200 : 502;
        assert.deepEqual([first.status, second.status, replayed(second)], [status, status, "true"]);
        assert.deepEqual(endOf(second), endOf(first));
        assert.match(first.text, /model_unavailable|server_error/);
        if (!isStream) assert.equal(second.headers["x-should-retry"], "false");
        assert.equal(mock.requests.length, calledBefore);
      });

      test(`${name} that failed after read calls only runs again`, async () => {
        const key = `read ${name}`.replaceAll(" ", "-");
        const first = await send(path, key, body("reads", "go"));
        const calledBefore = mock.requests.length;

        const second = await send(path, key, body("reads", "go"));

        assert.deepEqual([first.status, replayed(second)], [second.status, undefined]);
        assert.ok(mock.requests.length > calledBefore);
      });

      test(`${name} is 409 while it runs, and 422 with another body`, async () => {
        const more = gate();
        mock.answer("held", says(more.opened, "Said."));
        const key = `held ${name}`.replaceAll(" ", "-");
        const calledBefore = mock.requests.length;
        const first = send(path, key, body("held", "go"));
        await eventually("the model call", async () => mock.requests.length > calledBefore || undefined);

        const second = await send(path, key, body("held", "go"));
        const changed = await send(path, key, body("held", "else"));
        more.open();
        await first;
        const third = await send(path, key, body("held", "go"));

        assert.deepEqual(code(second), [409, "idempotency_in_progress"]);
        assert.deepEqual(code(changed), [422, "idempotency_key_reused"]);
        assert.deepEqual([replayed(third), mock.requests.length], ["true", calledBefore + 1]);
      });
    }

    test("a key is bound to its thread, its caller and its route", async () => {
      const body = completion({})("says", "go");
      const headers = { "idempotency-key": "bound", "x-svc-thread-id": "bound-1" };
      const ask = (fields: object, key: string = keys.ann) =>
        server.post("/v1/chat/completions", body, { key, headers: { ...headers, ...fields } });

      const first = await ask({});
      const elsewhere = await ask({ "x-svc-thread-id": "bound-2" });
      const others = [await ask({}, keys.bo), await ask({}, keys.rival)];
      const route = await send("/v1/responses", "bound", response({})("says", "go"));
      const chat = await send("/chat", "bound", { manifest: "says", messages: body.messages });

      assert.deepEqual(code(elsewhere), [422, "idempotency_key_reused"]);
      for (const answer of [first, ...others, route, chat])
        assert.deepEqual([answer.status, replayed(answer)], [200, undefined]);
    });

    test("a key must have a valid form, and a stream needs a thread for its replay", async () => {
      for (const { path, body } of forms) {
        const odd = await send(path, "a{b", body("says", "go"));

        assert.deepEqual(code(odd), [400, "invalid_idempotency_key"]);
      }
      const stateless = [
        await send("/v1/chat/completions", "stateless", completion({ stream: true })("says", "go")),
        await send("/v1/responses", "stateless", response({ stream: true, store: false })("says", "go")),
      ];
      for (const answer of stateless) assert.deepEqual(code(answer), [400, "idempotency_key_requires_thread_id"]);
    });

    test("the deletion of the thread deletes the answer, and the request runs again", async () => {
      const body = completion({ user: "erased" })("says", "go");
      const first = await send("/v1/chat/completions", "erased", body);
      await server.request("DELETE", "/chat/history/erased", { key: keys.ann });

      const second = await send("/v1/chat/completions", "erased", body);

      assert.deepEqual([first.status, second.status, replayed(second)], [200, 200, undefined]);
    });
  });

/** The body of an answer, or the last event of a stream. */
function endOf(answer: Answer): unknown {
  if (answer.text.startsWith("{")) return answer.json;
  const data = [...answer.text.matchAll(/^data: (\{.*)$/gm)].map(([, line]) => line ?? "");
  const { sequence_number: _number, ...last } = JSON.parse(data.at(-1) ?? "null");
  return last;
}

/** The ids, the end and the joined text of a stream. */
function readStream(text: string): object {
  const data = [...text.matchAll(/^data: (.*)$/gm)].map(([, line]) => line ?? "").filter((line) => line !== "[DONE]");
  const events = data.map((line) => JSON.parse(line));
  if (events.some(({ type }) => type !== undefined)) return events.at(-1).response;
  const deltas = events.flatMap(({ choices }) => choices.map(({ delta }: { delta: object }) => delta));
  const joined = (field: string) => deltas.map((delta: Record<string, string>) => delta[field] ?? "").join("");
  return {
    ids: [...new Set(events.map(({ id, created, model }) => `${id} ${created} ${model}`))],
    content: joined("content"),
    reasoning: joined("reasoning_content"),
    calls: deltas.flatMap(({ tool_calls = [] }: { tool_calls?: object[] }) => tool_calls),
    finish: events.flatMap(({ choices }) => choices.flatMap(({ finish_reason }: never) => finish_reason ?? [])),
    usage: events.at(-1).usage,
    isDone: text.endsWith("data: [DONE]\n\n"),
  };
}
