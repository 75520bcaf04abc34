// The timeline of a durable run, as operators see it.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { calls, inTurn, says, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const { env, keys } = apiKeys({
  alice: { scopes: ["chat:write", "approvals:write"] },
  watcher: { scopes: ["runs:read"] },
  stranger: { tenant_id: "globex", sub: "eve", scopes: ["*"] },
});
const execution = { mode: "durable" };
const sum = (expression: string) => ["calculator", { expression }] as const;

interface Item {
  readonly at: number;
  readonly kind: string;
  readonly seq: number | null;
  readonly [field: string]: unknown;
}

describe("the timeline of a run", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  const alice = { key: keys.alice };
  const watcher = { key: keys.watcher };
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted"],
      manifests: {
        agent: { tools: ["calculator"], execution },
        limited: { tools: ["calculator"], execution, limits: { max_tool_calls: 1 } },
        gated: {
          tools: ["calculator"],
          execution,
          approvals: [{ id: "sums", tools: ["calculator"], ttl_seconds: 600 }],
        },
      },
      env,
    }));
  });

  // biome-ignore lint/suspicious/noExplicitAny: looked into field by field
  const until = (token: string, status: string): Promise<any> =>
    eventually(`${token} as ${status}`, async () => {
      const { json } = await server.get(`/runs/${token}`, watcher);
      return json.status === status ? json : undefined;
    });
  const timeline = (token: string, query = "", options = watcher) =>
    server.get(`/runs/${token}/timeline${query}`, options);
  const kinds = (items: readonly Item[]) => items.map(({ kind }) => kind);

  test("DUR-008 a timeline shows calls, waits and ends with times, and no message text", async () => {
    mock.answer("scripted", inTurn(calls(sum("6*7")), says("It is 42.")));
    const { json } = await server.post("/chat", turn("gated", "a secret sum", { thread_id: "told" }), alice);
    const token = json.resume_token;
    const { waiting_on } = await until(token, "waiting");
    const waiting = await timeline(token);
    await server.post(`/approvals/${waiting_on.id}/decide`, { decision: "approved" }, alice);
    await until(token, "completed");

    const { status, json: told, text } = await timeline(token);

    assert.equal(status, 200);
    const { items, ...head } = told as { items: Item[] };
    assert.deepEqual(head, {
      ...{ run_id: token, status: "completed", thread_id: "acme:told", manifest_id: "gated" },
      ...{ claims: 2, attempts: 0, lost: 0, wake_at: null, next_cursor: null },
    });
    assert.deepEqual(kinds(items).toSorted(), [
      ...[
        "accepted",
        "begun",
        "ended",
        "input",
        "model_call",
        "model_call",
        "note",
        "note",
        "tool_call",
        "tool_result",
        "wait",
      ],
    ]);
    assert.ok(!kinds(waiting.json.items).includes("ended"));
    assert.deepEqual([items[0]?.kind, items[0]?.principal_subj, items.at(-1)?.kind], ["accepted", "alice", "ended"]);
    assert.ok(
      items.every(({ at }, n) => n === 0 || at >= (items[n - 1] as Item).at),
      "in the order of time",
    );
    const of = (kind: string) => items.find((item) => item.kind === kind) as Item;
    assert.deepEqual([of("model_call").tools, of("model_call").model], [["calculator"], "scripted"]);
    const { for: kind, id, tool, state } = of("wait");
    assert.deepEqual([kind, id, tool, state], ["approval", waiting_on.id, "calculator", "closed"]);
    assert.equal(waiting.json.items.find((item: Item) => item.kind === "wait").state, "open");
    const notes = items.filter((item) => item.kind === "note").map(({ type }) => type);
    assert.deepEqual(notes, ["wait_opened", "wait_ended"], "the log marks both ends of the wait");
    assert.deepEqual([of("tool_result").tool, of("tool_result").status], ["calculator", "ok"]);
    const { controls, passed } = of("tool_result");
    assert.deepEqual(passed, ["limits", "policy", "secret_masking"], "also what passed before the wait");
    assert.deepEqual(
      (controls as { control: string; verdict: string }[]).map(({ control, verdict }) => [control, verdict]),
      [["approvals", "wait"]],
    );
    assert.ok((of("tool_result").ms as number) >= 0);
    assert.deepEqual([of("ended").status, of("ended").stop_reason], ["completed", "end_turn"]);
    for (const word of ["secret sum", "It is 42", "6*7"]) assert.ok(!text.includes(word), word);
  });

  test("DUR-008 a timeline names the controls that decided about a call, and no text", async () => {
    mock.answer("scripted", inTurn(calls(sum("6*7"), sum("7*6")), says("It is 42.")));
    const { json } = await server.post("/chat", turn("limited", "sums"), alice);
    await until(json.resume_token, "completed");

    const { json: told } = await timeline(json.resume_token);

    const results = (told.items as Item[]).filter(({ kind }) => kind === "tool_result");
    assert.deepEqual(
      results.map(({ status, controls, passed }) => [
        status,
        (controls as { control: string; verdict: string }[] | undefined)?.map(({ control, verdict }) => [
          control,
          verdict,
        ]),
        passed,
      ]),
      [
        ["ok", undefined, ["limits", "policy", "secret_masking"]],
        ["denied", [["limits", "deny"]], undefined],
      ],
    );
  });

  test("DUR-008 a timeline's pages together are the whole", async () => {
    mock.answer("scripted", inTurn(...Array.from({ length: 6 }, (_, n) => calls(sum(`${n}+1`))), says("Done.")));
    const { json } = await server.post("/chat", turn("agent", "sums"), alice);
    await until(json.resume_token, "completed");

    const whole = await timeline(json.resume_token, "?limit=500");
    const pages: Item[][] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page = await timeline(json.resume_token, `?limit=3${cursor === "" ? "" : `&cursor=${cursor}`}`);
      pages.push(page.json.items);
      cursor = page.json.next_cursor;
    }

    assert.equal(whole.json.items.filter(({ kind }: Item) => kind === "tool_call").length, 6);
    assert.equal(pages.length, 7, "20 events, 3 at a time");
    assert.deepEqual(
      pages.flat(),
      whole.json.items.map((item: Item) => (item.kind === "tool_result" ? withMs(item, pages.flat()) : item)),
    );
  });

  test("DUR-013 a run whose step failed shows how often, and when it is retried", async () => {
    mock.answer("scripted", failure(400));
    const { json } = await server.post("/chat", turn("agent", "sum"), alice);
    const { wake_at } = await until(json.resume_token, "waiting");

    const { json: told } = await timeline(json.resume_token);

    assert.deepEqual([told.status, told.attempts, told.wake_at], ["waiting", 1, wake_at]);
    const { kind, attempts, wake_at: again } = told.items.at(-1);
    assert.deepEqual([kind, attempts, again], ["retry", 1, wake_at]);
  });

  test("DUR-005 a timeline needs the scope to read runs; bad pages are refused by name", async () => {
    mock.answer("scripted", says("Hello."));
    const { json } = await server.post("/chat", turn("agent", "hi"), alice);
    const token = json.resume_token;
    await until(token, "completed");

    const rows = [
      await timeline(token, "", { key: keys.stranger }),
      await timeline("unknown"),
      await timeline(token, "", alice),
      await timeline(token, "?limit=0"),
      await timeline(token, "?limit=501"),
      await timeline(token, "?cursor=x"),
    ];

    assert.deepEqual(
      rows.map(({ status }) => status),
      [404, 404, 403, 422, 422, 400],
    );
  });
});

/** Clears the duration of a result whose intent is on an earlier page, because it is unknown there. */
function withMs(item: Item, paged: readonly Item[]): Item {
  return { ...item, ms: paged.find(({ seq }) => seq === item.seq)?.ms ?? null };
}
