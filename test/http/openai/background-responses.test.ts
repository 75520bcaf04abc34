// POST /v1/responses with `background`, with the official client: create, poll, stream, cancel and delete.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import OpenAI, { APIError, BadRequestError, ConflictError, NotFoundError } from "openai";
import { calls, gate, inTurn, never, says, startChatProcess, turn } from "../../support/chat.ts";
import { eventually } from "../../support/eventually.ts";
import { failure } from "../../support/mock-model/behaviours.ts";
import type { MockModel } from "../../support/mock-model.ts";
import { sqliteIn } from "../../support/seed.ts";
import { apiKeys, type ProcessServer } from "../../support/server.ts";
import { cleanup } from "../../support/temp.ts";

const { env, keys } = apiKeys({
  ann: { scopes: ["chat:write"] },
  bob: { tenant_id: "globex", scopes: ["*"] },
  watcher: { scopes: ["runs:read"] },
});
const models = ["plain", "tools", "held", "broken", "survives", "replayed", "planner", "long"];
type Event = OpenAI.Responses.ResponseStreamEvent;

describe("responses in the background", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  const clientOf = (apiKey: string) => new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
  before(async () => {
    const entries = models.map((id) => [id, { model: { id }, tools: ["calculator"] }]);
    ({ server, mock } = await startChatProcess(atEnd, {
      models,
      manifests: {
        ...Object.fromEntries(entries),
        durable: { model: { id: "plain" }, execution: { mode: "durable" } },
        "durable-survives": { model: { id: "survives" }, tools: ["calculator"], execution: { mode: "durable" } },
        planner: { pattern: "plan_execute", model: { id: "planner" }, tools: ["calculator"] },
        "durable-planner": {
          ...{ pattern: "plan_execute", model: { id: "planner" }, tools: ["calculator"] },
          execution: { mode: "durable" },
        },
      },
      env: { ...env, SVC_FIBER_MAX_ATTEMPTS: "1", SVC_GRACEFUL_SHUTDOWN_SECONDS: "0.3" },
    }));
    mock.answer("plain", { text: "The answer." });
    mock.answer("tools", inTurn({ text: "First. ", ...calls(["calculator", { expression: "6*7" }]) }, { text: "42." }));
    mock.answer("broken", failure(400));
    // A character takes six bytes on the wire and an item has its text four times, which exceeds a connection's
    // buffers.
    const words = "\u0001".repeat(190_000);
    mock.answer("long", inTurn({ text: words, ...calls(["calculator", { expression: "1+1" }]) }, { text: words }));
    mock.answer("planner", ({ body }) => {
      const text = JSON.stringify(body.messages);
      if (text.includes("You plan the work")) return { text: '{"subtasks":[{"title":"Add","task":"Add them."}]}' };
      if (text.includes("The parts of the work are over")) return { text: "It is 42." };
      const adds = { text: "Let me add. ", ...calls(["calculator", { expression: "40+2" }]) };
      return text.includes('"role":"tool"') ? { text: "Added: 42." } : adds;
    });
  });

  type Fields = Partial<OpenAI.Responses.ResponseCreateParamsNonStreaming>;
  const ask = (model: string, fields: Fields = {}) =>
    clientOf(keys.ann).responses.create({ model, input: "hi", background: true, ...fields });
  const ended = (id: string) =>
    eventually(`the end of ${id}`, async () => {
      const response = await clientOf(keys.ann).responses.retrieve(id);
      return ["queued", "in_progress"].includes(response.status ?? "") ? undefined : response;
    });

  test("DUR-002 a background response is answered at once, and polled until it is completed", async () => {
    const held = gate();
    mock.answer("held", says("It ", held.opened, "is."));

    const asked = await ask("held", { metadata: { ticket: "7" } });
    const working = await eventually("its work", async () => {
      const response = await clientOf(keys.ann).responses.retrieve(asked.id);
      return response.status === "in_progress" ? response : undefined;
    });
    held.open();
    const done = await ended(asked.id);

    assert.ok(asked.status === "queued" || asked.status === "in_progress", asked.status);
    assert.deepEqual([asked.background, asked.output, asked.metadata], [true, [], { ticket: "7" }]);
    assert.deepEqual([working.id, working.background], [asked.id, true]);
    assert.deepEqual([done.status, done.output_text, done.background], ["completed", "It is.", true]);
    const next = await clientOf(keys.ann).responses.create({
      ...{ model: "plain", input: "and then?", previous_response_id: asked.id },
    });
    assert.equal(next.output_text, "The answer.");
  });

  test("DUR-002 a durable manifest runs in the background like every other", async () => {
    const done = await ended((await ask("durable")).id);

    assert.deepEqual([done.status, done.output_text], ["completed", "The answer."]);
    await assert.rejects(ask("plain", { store: false }), BadRequestError);
  });

  test("DUR-014 every stream has the same event numbers and continues after the last seen one", async () => {
    const client = clientOf(keys.ann);
    const events: Event[] = await Array.fromAsync(
      await client.responses.create({ model: "tools", input: "hi", background: true, stream: true }),
    );
    const [first] = events;
    assert.ok(first?.type === "response.created");
    const { id } = first.response;

    const again: Event[] = await Array.fromAsync(await client.responses.retrieve(id, { stream: true }));
    const later: Event[] = await Array.fromAsync(
      await client.responses.retrieve(id, { stream: true, starting_after: 7 }),
    );

    assert.deepEqual(
      events.map(({ sequence_number }) => sequence_number),
      events.map((_, n) => n),
    );
    assert.deepEqual(
      events.slice(0, 3).map(({ type }) => type),
      ["response.created", "response.queued", "response.in_progress"],
    );
    assert.deepEqual(again, events);
    assert.deepEqual(later, events.slice(8));
    const text = events.map((event) => (event.type === "response.output_text.delta" ? event.delta : "")).join("");
    assert.equal(text, "First. 42.");
    const last = events.at(-1);
    assert.ok(last?.type === "response.completed");
    assert.deepEqual(last.response, JSON.parse(JSON.stringify(await rawResponse(id))));
  });

  test("a long completed response arrives whole at a client that reads it", async () => {
    const { id } = await ended((await ask("long")).id);
    const client = clientOf(keys.ann);

    const events: Event[] = await Array.fromAsync(await client.responses.retrieve(id, { stream: true }));
    const rest: Event[] = await Array.fromAsync(
      await client.responses.retrieve(id, { stream: true, starting_after: 8 }),
    );

    assert.deepEqual(
      events.map(({ sequence_number }) => sequence_number),
      events.map((_, n) => n),
    );
    assert.equal(events.at(-1)?.type, "response.completed");
    assert.deepEqual(rest, events.slice(9));
  });

  test("the work on subtasks is no part of a response, in any form", async () => {
    const client = clientOf(keys.ann);
    const messages = [{ role: "user" as const, content: "hi" }];

    const live: Event[] = await Array.fromAsync(
      await client.responses.create({ model: "planner", input: "hi", stream: true }),
    );
    const polled = await ended((await ask("planner")).id);
    const replayed: Event[] = await Array.fromAsync(await client.responses.retrieve(polled.id, { stream: true }));
    const chunks = await Array.fromAsync(
      await client.chat.completions.create({ model: "durable-planner", messages, stream: true }),
    );

    const told = live.at(-1);
    const again = replayed.at(-1);
    assert.ok(told?.type === "response.completed" && again?.type === "response.completed");
    const read = await client.responses.retrieve(told.response.id);
    assert.deepEqual(read.output, told.response.output);
    for (const { output } of [told.response, read, polled, again.response])
      assert.deepEqual(
        output.map((item) => item.type === "message" && item.content.map((part) => "text" in part && part.text)),
        [["It is 42."]],
      );
    assert.equal(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join(""), "It is 42.");
  });

  test("DUR-014 a listener receives each step as it happens, and the end", async () => {
    const held = gate();
    mock.answer(
      "replayed",
      inTurn({ text: "First. ", ...calls(["calculator", { expression: "1+1" }]) }, says("Two", held.opened, ".")),
    );
    const { id } = await ask("replayed");

    const stream = await clientOf(keys.ann).responses.retrieve(id, { stream: true });
    const types: string[] = [];
    let text = "";
    for await (const event of stream) {
      types.push(event.type);
      if (event.type === "response.output_text.delta") text += event.delta;
      if (text === "First. ") held.open();
    }

    assert.equal(text, "First. Two.");
    assert.equal(types.at(-1), "response.completed");
  });

  test("DUR-006 a response can be stopped, fails for good, and is deleted when it is over", async () => {
    const client = clientOf(keys.ann);
    mock.answer("held", says("Hmm", never));
    const asked = await ask("held");
    await eventually("its call", async () => mock.requests.at(-1)?.model === "held" || undefined);

    await assert.rejects(client.responses.delete(asked.id), ConflictError);
    const cancelled = await client.responses.cancel(asked.id);
    const events: Event[] = await Array.fromAsync(await client.responses.retrieve(asked.id, { stream: true }));
    await client.responses.delete(asked.id);
    const failed = await ended((await ask("broken")).id);
    const told: Event[] = await Array.fromAsync(await client.responses.retrieve(failed.id, { stream: true }));

    assert.deepEqual([cancelled.status, cancelled.background], ["cancelled", true]);
    assert.equal(events.at(-1)?.type, "response.incomplete");
    await assert.rejects(client.responses.retrieve(asked.id), NotFoundError);
    assert.deepEqual([failed.status, failed.error?.code], ["failed", "server_error"]);
    assert.match(failed.error?.message ?? "", /^model provider failed: /);
    const last = told.at(-1);
    assert.deepEqual(last?.type === "response.failed" && last.response.error, failed.error);
    const { json } = await server.get("/runs?limit=200", { key: keys.watcher });
    const statuses = json.items.map(({ status }: { status: string }) => status);
    assert.ok(statuses.includes("dead") && !statuses.includes("failed"), "with the response goes its run");
  });

  test("DUR-006 the deletion of a response deletes all rows of its run, also if its thread stays", async () => {
    const client = clientOf(keys.ann);
    const first = await ended((await ask("plain")).id);
    const second = await ended((await ask("plain", { previous_response_id: first.id })).id);
    const rows = (): number => {
      const config = sqliteIn(server.dataDir);
      assert.ok(config.engine === "sqlite");
      const db = new Database(config.path);
      const count = db
        .prepare("SELECT COUNT(*) FROM fibers f WHERE f.run_key NOT IN (SELECT run_key FROM runs)")
        .pluck()
        .get();
      db.close();
      return count as number;
    };

    await client.responses.delete(first.id);

    assert.equal(rows(), 0);
    assert.equal((await client.responses.retrieve(second.id)).output_text, "The answer.");
  });

  test("DUR-008 a response outlives the process that accepted it", async () => {
    mock.answer("survives", says("Hello", never));
    const asked = await ask("survives");
    await eventually("its call", async () => mock.requests.at(-1)?.model === "survives" || undefined);

    await server.kill();
    mock.answer("survives", { text: "Hello again." });
    await server.restart();
    const done = await ended(asked.id);

    assert.deepEqual([done.status, done.output_text], ["completed", "Hello again."]);
  });

  test("DUR-014 the end of the server ends the stream only; another process continues it", async () => {
    const step = calls(["calculator", { expression: "6*7" }]);
    mock.answer("survives", inTurn({ text: "First. ", ...step }, says("It", never)));
    const opened = await clientOf(keys.ann).responses.create({
      ...{ model: "survives", input: "hi", background: true, stream: true },
    });
    // Raw fetch, because this stream must not end like a complete one.
    const run = await fetch(`${server.url}/chat/stream`, {
      method: "POST",
      headers: { authorization: `Bearer ${keys.ann}`, "content-type": "application/json" },
      body: JSON.stringify(turn("durable-survives", "hi")),
    });
    const seen: Event[] = [];
    const listening = (async () => {
      for await (const event of opened) {
        seen.push(event);
        if (event.type === "response.output_text.delta") process.kill(server.pid, "SIGTERM");
      }
    })();
    const cut: unknown = await listening.then(
      () => assert.fail("the stream has ended as if the response were over"),
      (error) => error,
    );
    const told = await run.text();
    mock.answer("survives", { text: "It is 42." });
    await server.restart();
    const [first, last] = [seen[0], seen.at(-1)];
    assert.ok(first?.type === "response.created" && last !== undefined);
    const stream = await clientOf(keys.ann).responses.retrieve(first.response.id, {
      ...{ stream: true, starting_after: last.sequence_number },
    });

    const rest: Event[] = await Array.fromAsync(stream);

    assert.ok(cut instanceof APIError, String(cut));
    const { sequence_number } = cut.error as { sequence_number: number };
    assert.deepEqual([cut.code, sequence_number], ["shutting_down", last.sequence_number]);
    assert.match(told, /run_accepted/);
    assert.doesNotMatch(told, /DONE|"final"/);
    const all = [...seen, ...rest];
    assert.deepEqual(
      all.map(({ sequence_number }) => sequence_number),
      all.map((_, number) => number),
    );
    const text = all.map((event) => (event.type === "response.output_text.delta" ? event.delta : "")).join("");
    assert.equal(text, "First. It is 42.");
    const end = all.at(-1);
    assert.equal(end?.type, "response.completed");
  });

  test("DUR-005 another tenant's response is unknown, and a foreground one has no stream", async () => {
    const asked = await ask("plain");
    const bob = clientOf(keys.bob);
    const plain = await clientOf(keys.ann).responses.create({ model: "plain", input: "hi" });

    await assert.rejects(bob.responses.retrieve(asked.id), NotFoundError);
    await assert.rejects(bob.responses.retrieve(asked.id, { stream: true }), NotFoundError);
    await assert.rejects(bob.responses.cancel(asked.id), NotFoundError);
    await assert.rejects(clientOf(keys.ann).responses.retrieve(plain.id, { stream: true }), BadRequestError);
    assert.equal(plain.background, false);
  });

  async function rawResponse(id: string) {
    return (await server.get(`/v1/responses/${id}`, { key: keys.ann })).json;
  }
});
