// Durable agents on the OpenAI entry point with the official client: the call waits for the run and answers like a
// turn.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import OpenAI, { APIConnectionError, APIError } from "openai";
import { calls, gate, inTurn, says, startChatProcess } from "../../support/chat.ts";
import { eventually } from "../../support/eventually.ts";
import { failure } from "../../support/mock-model/behaviours.ts";
import type { MockModel } from "../../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { scopes: ["chat:write", "runs:read", "approvals:read", "approvals:write"] },
});
const models = ["plain", "tools", "held", "left", "broken", "failing", "functions"];
const durable = { execution: { mode: "durable" } };

describe("durable agents on the OpenAI surface", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let client: OpenAI;
  before(async () => {
    const of = (id: string, more: object = {}) => [id, { model: { id }, tools: ["calculator"], ...more }] as const;
    const approvals = [{ id: "sums", tools: ["calculator"] }];
    ({ server, mock } = await startChatProcess(atEnd, {
      models,
      manifests: {
        ...Object.fromEntries(models.map((id) => of(id, durable))),
        transient: { model: { id: "tools" }, tools: ["calculator"] },
        careful: { model: { id: "tools" }, tools: ["calculator"], approvals, ...durable },
        hasty: {
          ...{ model: { id: "tools" }, tools: ["calculator"], approvals, ...durable },
          limits: { max_wall_clock_seconds: 1 },
        },
      },
      env: { ...env, SVC_FIBER_MAX_ATTEMPTS: "1" },
    }));
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: keys.ann });
    mock.answer("plain", { text: "The answer." });
    mock.answer("tools", inTurn({ text: "First. ", ...calls(["calculator", { expression: "6*7" }]) }, { text: "42." }));
    for (const id of ["broken", "failing"]) mock.answer(id, failure(400));
  });

  const messages = [{ role: "user" as const, content: "hi" }];
  const runs = async (manifest: string): Promise<{ run_id: string; status: string; thread_id: string | null }[]> => {
    const { json } = await server.get("/runs?limit=200", { key: keys.ann });
    return json.items.filter((item: { manifest_id: string }) => item.manifest_id === manifest);
  };
  const pending = () =>
    eventually("a question", async () => {
      const { json } = await server.get("/approvals?status=pending", { key: keys.ann });
      return json.requests[0] as { approval_id: string } | undefined;
    });
  const approve = async ({ approval_id }: { approval_id: string }) => {
    const { status } = await server.post(`/approvals/${approval_id}/decide`, { status: "approved" }, { key: keys.ann });
    assert.equal(status, 200);
  };

  test("DUR-002 a completion waits for the run and answers like a turn", async () => {
    const asked = { messages, user: "lasting" };
    const answer = await client.chat.completions.create({ model: "tools", ...asked });
    const turn = await client.chat.completions.create({ model: "transient", ...asked, user: "passing" });

    const [run] = await runs("tools");
    assert.deepEqual([run?.status, run?.thread_id], ["completed", "acme:lasting"]);
    const { id, created: _created, model: _model, ...rest } = answer;
    const { id: _id, created: _at, model: _as, ...others } = turn;
    assert.match(id, /^chatcmpl-[0-9a-f]{24}$/);
    assert.deepEqual(rest, others);
    assert.equal(answer.choices[0]?.message.content, "42.");
    assert.ok((answer.usage?.total_tokens ?? 0) > 0);
  });

  test("DUR-002 a streamed completion sends each step of the run, and its usage", async () => {
    const of = async (model: string) => {
      const asked = { model, messages, stream: true as const, stream_options: { include_usage: true } };
      const chunks = [];
      for await (const chunk of await client.chat.completions.create(asked)) chunks.push(chunk);
      return chunks;
    };
    const [answer, turn] = [await of("tools"), await of("transient")];

    const text = (chunks: typeof answer) => chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
    assert.equal(text(answer), "First. 42.");
    assert.equal(text(turn), text(answer));
    assert.deepEqual(answer[0]?.choices[0]?.delta, { role: "assistant", content: "" });
    assert.deepEqual(answer.at(-1)?.usage, turn.at(-1)?.usage);
    assert.deepEqual(answer.at(-2)?.choices[0]?.finish_reason, "stop");
    assert.equal(new Set(answer.map(({ id }) => id)).size, 1);
  });

  test("DUR-002 a response waits for the run, and is stored and continued only where asked", async () => {
    const response = await client.responses.create({ model: "tools", input: "hi" });
    const read = await client.responses.retrieve(response.id);
    const next = await client.responses.create({
      ...{ model: "plain", input: "and then?", previous_response_id: response.id },
    });
    const unkept = await client.responses.create({ model: "tools", input: "hi", store: false });
    const events = [];
    for await (const event of await client.responses.create({ model: "tools", input: "hi", stream: true }))
      events.push(event);

    const said = ["First. ", "42."];
    const texts = (output: OpenAI.Responses.ResponseOutputItem[]) =>
      output.map((item) =>
        item.type === "message" && item.content[0]?.type === "output_text" ? item.content[0].text : item,
      );
    for (const { status, output, background } of [response, read, unkept])
      assert.deepEqual([status, texts(output), background], ["completed", said, false]);
    assert.deepEqual(read, response);
    assert.equal(next.output_text, "The answer.");
    assert.deepEqual(
      events.map(({ sequence_number }) => sequence_number),
      events.map((_, at) => at),
    );
    assert.deepEqual(
      events.map(({ type }) => type).filter((type) => !type.includes("content_part") && !type.includes("output_item")),
      [
        ...["response.created", "response.in_progress"],
        ...["response.output_text.delta", "response.output_text.done"],
        ...["response.output_text.delta", "response.output_text.done", "response.completed"],
      ],
    );
  });

  test("DUR-002 an answer names its thread, if it has one, streamed or not", async () => {
    const headerOf = async (path: string, body: object) => {
      const stream = (body as { stream?: boolean }).stream === true;
      if (!stream) return (await server.post(path, body, { key: keys.ann })).headers["x-svc-thread-id"];
      const opened = await server.stream(path, body, { key: keys.ann });
      await opened.rest();
      return opened.headers["x-svc-thread-id"];
    };
    const completion = (more: object) => headerOf("/v1/chat/completions", { model: "plain", messages, ...more });
    const response = (more: object) => headerOf("/v1/responses", { model: "plain", input: "hi", ...more });
    const ofResponse = /^acme:resp-[0-9a-f]{32}$/;

    for (const stream of [false, true]) {
      assert.equal(await completion({ stream, user: "named" }), "acme:named");
      assert.equal(await completion({ stream, user: "Zoë 🙂" }), "acme:Zo%C3%AB%20%F0%9F%99%82");
      assert.equal(await completion({ stream, model: "transient", user: "passed by" }), "acme:passed%20by");
      assert.equal(await completion({ stream }), undefined);
      assert.match(String(await response({ stream })), ofResponse);
      assert.match(String(await response({ stream, background: true })), ofResponse);
      assert.equal(await response({ stream, store: false }), undefined);
      assert.equal(await completion({ stream, model: "failing", user: `fails-${stream}` }), `acme:fails-${stream}`);
    }
    const { json: named } = await server.get("/chat/history/named", { key: keys.ann });
    assert.equal(named.messages.length, 4);
  });

  test("DUR-002 a response that continues an older one names the copied thread", async () => {
    const asked = async (previous_response_id: string | null) => {
      const { json, headers } = await server.post(
        "/v1/responses",
        { model: "plain", input: "hi", previous_response_id },
        { key: keys.ann },
      );
      return { id: json.id as string, thread: String(headers["x-svc-thread-id"]) };
    };
    const first = await asked(null);
    const second = await asked(first.id);
    const other = await asked(first.id);

    assert.equal(second.thread, first.thread);
    assert.notEqual(other.thread, first.thread);
    assert.ok(other.id.startsWith(`resp_${other.thread.slice("acme:resp-".length)}`));
  });

  test("DUR-002 calls of client functions end the answer, and their results start another run", async () => {
    mock.answer("functions", ({ body }) => {
      const last = (body.messages as { role: string; content: string }[]).at(-1);
      return last?.role === "tool" ? { text: `It is ${last.content}.` } : calls(["weather", { city: "Ulm" }]);
    });
    const weather = { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } };
    const tools = [{ type: "function" as const, function: weather }];

    const asked = await client.chat.completions.create({ model: "functions", messages, tools });
    const [call] = asked.choices[0]?.message.tool_calls ?? [];
    const told = [...messages, asked.choices[0]?.message, { role: "tool", tool_call_id: call?.id, content: "rain" }];
    const answer = await client.chat.completions.create({
      model: "functions",
      messages: told as typeof messages,
      tools,
    });

    assert.equal(asked.choices[0]?.finish_reason, "tool_calls");
    assert.deepEqual(call?.type === "function" && call.function, { name: "weather", arguments: '{"city":"Ulm"}' });
    assert.equal(answer.choices[0]?.message.content, "It is rain.");
  });

  test("DUR-002 a call waits while a person is asked; the run outlives its client", async () => {
    const answer = client.chat.completions.create({ model: "careful", messages });
    await approve(await pending());
    assert.equal((await answer).choices[0]?.message.content, "42.");

    const held = gate();
    mock.answer("left", says("It ", held.opened, "is."));
    const leaving = new AbortController();
    const left = client.chat.completions.create({ model: "left", messages }, { signal: leaving.signal });
    await eventually("its work", async () => (await runs("left"))[0]?.status === "running" || undefined);
    leaving.abort();
    await assert.rejects(left);
    held.open();
    await eventually("its end", async () => (await runs("left"))[0]?.status === "completed" || undefined);
    assert.equal((await runs("left")).length, 1);
  });

  test("DUR-002 a call waits at most for the run's time; the run continues and is not repeated", async () => {
    const error = await client.chat.completions.create({ model: "hasty", messages }).catch((thrown: unknown) => thrown);
    const [run, ...others] = await runs("hasty");

    assert.ok(error instanceof APIError);
    assert.deepEqual([error.status, error.code, others], [504, "run_goes_on", []]);
    assert.ok(error.message.includes(`run_goes_on:${run?.run_id}`), error.message);
    assert.equal(run?.status, "waiting");
    const streamed = await server.stream(
      "/v1/chat/completions",
      { model: "hasty", messages, stream: true },
      { key: keys.ann },
    );
    await streamed.rest();
    assert.match(streamed.text, /"code":"run_goes_on"\}\}\n\ndata: \[DONE\]\n\n$/);
  });

  test("DUR-002 a failed run answers like a failed turn, and starts once", async () => {
    const errors = [];
    const model = "broken";
    errors.push(await client.chat.completions.create({ model, messages }).catch((thrown: unknown) => thrown));
    errors.push(await client.responses.create({ model, input: "hi" }).catch((thrown: unknown) => thrown));

    for (const error of errors) {
      assert.ok(error instanceof APIError);
      assert.deepEqual([error.status, error.code], [502, "model_unavailable"]);
      assert.match(error.message, /^502 model provider failed/);
    }
    assert.deepEqual(
      (await runs("broken")).map(({ status }) => status),
      ["dead", "dead"],
    );
  });

  test("DUR-002 a run outlives a server that dies with the call, and its response is stored", async () => {
    const held = gate();
    mock.answer("held", says("It ", held.opened, "is."));
    const stream = await client.responses.create({ model: "held", input: "hi", stream: true }, { maxRetries: 0 });
    const events = stream[Symbol.asyncIterator]();
    const { value } = await events.next();
    await eventually("its work", async () => (await runs("held"))[0]?.status === "running" || undefined);

    await server.kill();
    await assert.rejects(async () => {
      while (!(await events.next()).done);
      throw new APIConnectionError({ message: "ended early" });
    });
    held.open();
    await server.restart();
    client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: keys.ann });
    const done = await eventually("its end", async () => {
      const response = await client.responses.retrieve(value.response.id);
      return response.status === "completed" ? response : undefined;
    });

    assert.equal(done.output_text, "It is.");
    assert.equal((await runs("held")).length, 1);
  });
});
