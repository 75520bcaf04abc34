// Plans: agents of the pattern deep write them, and people read and edit them through /plans.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { notesMax } from "../../storage/tables/queued-inputs.ts";
import { calls, chunk, framesUntil, gate, inTurn, says, shown, startChat, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { Reply } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, startServerProcess, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({
  planner: { sub: "paula", scopes: ["chat:write", "chat:read", "plans:read", "plans:write", "audit:read"] },
  reader: { scopes: ["plans:read"] },
  writer: { scopes: ["plans:write"] },
  nobody: { scopes: ["chat:write"] },
  stranger: { tenant_id: "globex", scopes: ["*"] },
});
const steps = [{ title: "Look" }, { title: "Leap", note: "carefully" }];

describe("plans", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  let count = 0;
  before(async () => {
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted", "held"],
      manifests: {
        deep: { pattern: "deep" },
        plain: {},
        named: { tools: ["plan_get", "calculator"], pattern: "deep" },
      },
      env,
    }));
  });

  const fresh = (): string => `p${++count}`;
  const as = (who: keyof typeof keys) => ({ key: keys[who] });
  const get = (path: string, who: keyof typeof keys = "planner") => server.get(path, as(who));
  const put = (id: string, body: object, who: keyof typeof keys = "planner") =>
    server.request("PUT", `/plans/${id}`, { ...as(who), body });
  const remove = (id: string, who: keyof typeof keys = "planner") => server.request("DELETE", `/plans/${id}`, as(who));
  const newestRequest = () => mock.requests.at(-1)?.body as { messages: { role: string; content: string }[] };

  /** Runs one turn with these replies of the model. Returns the texts of the tool results in order. */
  async function run(thread: string | null, replies: Reply[], manifest = "deep"): Promise<string[]> {
    mock.answer("scripted", inTurn(...replies, { text: "Done." }));
    const answer = await server.post(
      "/chat",
      turn(manifest, "go", thread === null ? {} : { thread_id: thread }),
      as("planner"),
    );
    assert.equal(answer.status, 200, answer.text);
    const { messages } = newestRequest();
    const from = messages.findLastIndex(({ role }) => role === "user");
    return messages.slice(from).flatMap(({ role, content }) => (role === "tool" ? [content] : []));
  }
  async function planned(thread: string, fields: object = {}) {
    const [text = ""] = await run(thread, [calls(["plan_create", { title: "T", goal: "G", steps, ...fields }])]);
    return JSON.parse(text) as { plan_id: string; updated_at: number; plan: { steps: { id: string }[] } };
  }

  test("PAT-004 deep binds the plan tools last, and /plans lists their plans with the thread", async () => {
    const made = await planned("deep-1");
    const toolsOf = () => (mock.requests.at(-1)?.body.tools as { function: { name: string } }[] | undefined) ?? [];
    const names = () => toolsOf().map((tool) => tool.function.name);
    assert.deepEqual(names(), ["plan_create", "plan_update_step", "plan_get"]);
    const listed = await get("/plans?thread_id=deep-1");
    await run("deep-2", [], "named");
    assert.deepEqual(names(), ["plan_get", "calculator", "plan_create", "plan_update_step"]);
    await run("deep-2", [], "plain");
    assert.deepEqual(names(), []);

    assert.match(made.plan_id, /^[0-9a-f]{12}$/);
    assert.deepEqual(listed.json.items, listed.json.plans);
    const [row] = listed.json.items;
    const { created_at } = row;
    assert.deepEqual(row, {
      id: made.plan_id,
      tenant_id: "acme",
      manifest_id: "deep",
      thread_id: "acme:deep-1",
      created_at,
      updated_at: created_at,
      expires_at: null,
      plan: {
        title: "T",
        goal: "G",
        steps: [
          { id: "s1", title: "Look", status: "pending" },
          { id: "s2", title: "Leap", status: "pending", note: "carefully" },
        ],
        status: "active",
      },
    });
  });

  test("PAT-004 a step changes in place, a person's text stays, and the agent reads it", async () => {
    const { plan_id } = await planned("deep-3");
    const { json: before } = await get(`/plans/${plan_id}`);
    const edited = { ...before.plan, budget: 5, steps: [...before.plan.steps, { id: "mine", title: "Rest" }] };
    assert.equal((await put(plan_id, { plan: edited, expected_updated_at: before.updated_at })).status, 200);

    const results = await run("deep-3", [
      calls(
        ["plan_update_step", { plan_id, step_id: "s1" }],
        ["plan_update_step", { plan_id, step_id: "mine", status: "in_progress", note: "now" }],
        ["plan_update_step", { plan_id, step_id: "nope" }],
        ["plan_get", {}],
      ),
    ]);

    assert.match(results[2] ?? "", /^\[tool error\/not_found\] the plan has no step nope; its steps are s1, s2, mine/);
    const read = JSON.parse(results[3] ?? "{}");
    const { json: after } = await get(`/plans/${plan_id}`);
    assert.equal(read.plan_id, plan_id);
    assert.deepEqual(read.plan, after.plan);
    assert.equal(after.plan.budget, 5);
    assert.equal(after.plan.edited.by, "paula");
    assert.deepEqual(after.plan.steps, [
      { id: "s1", title: "Look", status: "done" },
      { id: "s2", title: "Leap", status: "pending", note: "carefully" },
      { id: "mine", title: "Rest", status: "in_progress", note: "now" },
    ]);
  });

  test("PAT-004 an agent reaches its conversation's plans, shared ones by id, and no other's", async () => {
    const { plan_id: other } = await planned("deep-4");
    const free = fresh();
    await put(free, { plan: { steps: [{ id: "a", title: "A" }] } });

    const results = await run("deep-5", [
      calls(
        ["plan_get", {}],
        ["plan_get", { plan_id: other }],
        ["plan_update_step", { plan_id: other, step_id: "s1" }],
        ["plan_create", { plan_id: other, steps }],
        ["plan_get", { plan_id: free }],
        ["plan_update_step", { plan_id: free, step_id: "a" }],
      ),
    ]);

    assert.match(results[0] ?? "", /^\[tool error\/not_found\] this conversation has no plan yet/);
    for (const at of [1, 2]) assert.match(results[at] ?? "", /^\[tool error\/not_found\] there is no plan/);
    assert.match(results[3] ?? "", /^\[tool error\/invalid_arguments\] the plan_id .* is taken/);
    assert.deepEqual(JSON.parse(results[4] ?? "{}").plan.steps, [{ id: "a", title: "A" }]);
    assert.equal((await get(`/plans/${free}`)).json.plan.steps[0].status, "done");
    assert.equal((await get(`/plans/${other}`)).json.plan.steps[0].status, "pending");
  });

  test("PAT-004 a plan has a thread only in a conversation, and replaces ids there only", async () => {
    const [text = "{}"] = await run(null, [calls(["plan_create", { steps }])]);
    const mine = fresh();
    await planned("deep-6", { plan_id: mine });
    const again = await planned("deep-6", { plan_id: mine, title: "Again" });

    const { plan_id } = JSON.parse(text);
    assert.equal((await get(`/plans/${plan_id}`)).json.thread_id, "");
    assert.equal(again.plan_id, mine);
    assert.equal((await get(`/plans/${mine}`)).json.plan.title, "Again");
    assert.equal((await get("/plans?thread_id=deep-6")).json.items.length, 1);
  });

  test("PAT-004 a turn without a conversation replaces only plans that it has made", async () => {
    const [persons, agents, own, brief] = [fresh(), fresh(), fresh(), fresh()];
    await put(persons, { plan: { title: "By hand" } });
    await run(null, [calls(["plan_create", { plan_id: agents, title: "Earlier", steps }])]);

    const results = await run(null, [
      calls(
        ["plan_create", { plan_id: persons, title: "Mine", steps }],
        ["plan_create", { plan_id: agents, title: "Mine", steps }],
        ["plan_create", { plan_id: own, title: "First", steps }],
        ["plan_create", { plan_id: brief, title: "First", steps }],
      ),
      calls(["plan_create", { plan_id: own, title: "Second", steps }], ["plan_get", { plan_id: persons }]),
    ]);

    for (const at of [0, 1])
      assert.match(results[at] ?? "", /^\[tool error\/invalid_arguments\] the plan_id .* is taken/);
    assert.equal(JSON.parse(results[5] ?? "{}").plan.title, "By hand");
    const titles = [];
    for (const id of [persons, agents, own]) titles.push((await get(`/plans/${id}`)).json.plan.title);
    assert.deepEqual(titles, ["By hand", "Earlier", "Second"]);
  });

  test("PAT-004 a person's plan under a deleted plan's id is not the turn's that made the former", async () => {
    const id = fresh();
    const { opened, open } = gate();
    const wanted = JSON.stringify({ plan_id: id, title: "Mine again", steps });
    const again = { id: "again", type: "function", function: { name: "plan_create", arguments: wanted } };
    const late: Reply = {
      steps: [
        { hold: opened },
        { send: chunk({ tool_calls: [{ index: 0, ...again }] }, "tool_calls") },
        { send: "data: [DONE]\n\n" },
      ],
    };
    mock.answer(
      "scripted",
      inTurn(calls(["plan_create", { plan_id: id, title: "Mine", steps }]), late, { text: "Done." }),
    );
    const turned = server.post("/chat", turn("deep", "go"), as("planner"));
    await eventually("the plan", async () => (await get(`/plans/${id}`)).status === 200);

    await remove(id);
    // Two plans with one id are distinguished by their creation time in milliseconds.
    await setTimeout(5);
    await put(id, { plan: { title: "By hand" } });
    open();
    await turned;

    const results = newestRequest().messages.filter(({ role }) => role === "tool");
    assert.match(results[1]?.content ?? "", /^\[tool error\/invalid_arguments\] the plan_id .* is taken/);
    assert.equal((await get(`/plans/${id}`)).json.plan.title, "By hand");
  });

  test("PAT-004 an invalid plan is an error for the model: no steps, repeated ids, too large", async () => {
    const long = "x".repeat(2000);
    const large = Array.from({ length: 40 }, (_, at) => ({ title: "t", note: `${at}${long}`.slice(0, 2000) }));
    const results = await run("deep-7", [
      calls(
        ["plan_create", { steps: [] }],
        [
          "plan_create",
          {
            steps: [
              { id: "a", title: "A" },
              { id: "a", title: "B" },
            ],
          },
        ],
        ["plan_create", { steps: large }],
        ["plan_create", { plan_id: "a/b", steps }],
      ),
    ]);
    for (const text of results) assert.match(text, /^\[tool error\/invalid_arguments\]/);
    assert.equal(results.length, 4);

    for (let batch = 0; batch < 10; batch++) {
      const ten = Array.from({ length: 10 }, () => ["plan_create", { steps }] as const);
      for (const text of await run("deep-8", [calls(...ten)])) assert.ok(text.startsWith("{"), text);
    }
    const [more] = await run("deep-8", [calls(["plan_create", { steps }])]);
    assert.match(more ?? "", /^\[tool error\/rate_limited\] the conversation has 100 plans/);
  });

  test("PLAN-001 a plan is stored with its fields, and read unchanged", async () => {
    const id = fresh();
    const expires_at = Date.now() + 3_600_000;
    const plan = { title: "Ä", nested: { a: [1, null, { __proto: 1 }] }, steps: "none" };
    const made = await put(id, { plan, manifest_id: "deep", expires_at });
    const { json: row } = await get(`/plans/${id}`);
    const kept = await put(id, { plan: { title: "B" }, expected_updated_at: row.updated_at });
    const cleared = await put(id, { plan: { title: "C" }, expires_at: null, manifest_id: null });

    assert.equal(made.status, 200);
    assert.deepEqual(made.json, { ...row, agent_told: null });
    const { edited, ...rest } = row.plan;
    assert.deepEqual(rest, plan);
    assert.deepEqual([row.manifest_id, row.expires_at, row.created_at], ["deep", expires_at, row.updated_at]);
    assert.deepEqual([kept.json.manifest_id, kept.json.expires_at], ["deep", expires_at]);
    assert.deepEqual([cleared.json.manifest_id, cleared.json.expires_at], ["", null]);
    assert.equal(cleared.json.created_at, row.created_at);
    assert.ok(kept.json.updated_at > row.updated_at && cleared.json.updated_at > kept.json.updated_at);
    assert.ok(edited.at >= row.created_at - 60_000);
  });

  test("PLAN-001 an invalid plan is refused and named: type, size, id or unknown fields", async () => {
    const refused = [
      await put(fresh(), { plan: [] }),
      await put(fresh(), { plan: "p" }),
      await put(fresh(), {}),
      await put(fresh(), { plan: {}, expires_at: -1 }),
      await put(fresh(), { plan: {}, thread_id: "t" }),
      await put(fresh(), { plan: { text: "x".repeat(65_536) } }),
      await put("a.b", { plan: {} }),
      await put("x".repeat(65), { plan: {} }),
    ];

    for (const answer of refused) assert.equal(answer.status, 422, answer.text);
    assert.deepEqual(
      refused.slice(5).map(({ json }) => json.detail[0].loc),
      [
        ["body", "plan"],
        ["path", "plan_id"],
        ["path", "plan_id"],
      ],
    );
  });

  test("PLAN-002 a plan that was stored outside a conversation has an empty thread_id", async () => {
    const id = fresh();

    const made = await put(id, { plan: {} });

    assert.equal(made.json.thread_id, "");
  });

  test("PLAN-003 edited has the caller's subject and the time, whatever the body contains", async () => {
    const id = fresh();
    const before = Date.now();

    const made = await put(id, { plan: { a: 1, edited: { by: "root", at: 1 } } });

    assert.deepEqual(Object.keys(made.json.plan.edited), ["by", "at"]);
    assert.equal(made.json.plan.edited.by, "paula");
    assert.ok(made.json.plan.edited.at >= before);
  });

  test("PLAN-004 the list is in the order of changes, paged, and filters by suffix or full id", async () => {
    const ids = [fresh(), fresh(), fresh()];
    for (const id of ids) await put(id, { plan: {} }, "stranger");
    await put(ids[0] as string, { plan: { again: true } }, "stranger");
    const of = (rows: readonly { id: string }[]) => rows.map(({ id }) => id);

    const first = await get("/plans?limit=2", "stranger");
    const second = await get(`/plans?limit=2&cursor=${first.json.next_cursor}`, "stranger");

    assert.deepEqual(of(first.json.items), [ids[0], ids[2]]);
    assert.deepEqual(of(second.json.items), [ids[1]]);
    assert.equal(second.json.next_cursor, null);
    for (const limit of [0, 201]) assert.ok([400, 422].includes((await get(`/plans?limit=${limit}`)).status));
    assert.equal((await get("/plans?cursor=nonsense")).json.error, "invalid_cursor");
    await planned("deep-9");
    assert.equal((await get("/plans?thread_id=deep-9")).json.items.length, 1);
    assert.equal((await get("/plans?thread_id=acme:deep-9")).json.items.length, 1);
    const none = await get("/plans?thread_id=");
    assert.ok(none.json.items.every((row: { thread_id: string }) => row.thread_id === ""));
  });

  test("AUTH-013 PLAN-004 a reader reads, a writer does both, and others do neither", async () => {
    const id = fresh();
    assert.equal((await put(id, { plan: {} }, "writer")).status, 200);
    assert.equal((await get(`/plans/${id}`, "reader")).status, 200);
    assert.equal((await get("/plans", "reader")).status, 200);
    assert.equal((await get("/plans", "writer")).status, 200);

    for (const refused of [
      await put(id, { plan: {} }, "reader"),
      await remove(id, "reader"),
      await get("/plans", "nobody"),
    ])
      assert.equal(refused.status, 403, refused.text);
  });

  test("PLAN-005 a filter by a thread of another tenant is refused", async () => {
    const answer = await get("/plans?thread_id=other:t1");

    assert.deepEqual([answer.status, answer.json.error], [400, "invalid_thread_id"]);
  });

  test("PLAN-006 a plan that is missing, expired or another tenant's is 404", async () => {
    const [id, over] = [fresh(), fresh()];
    await put(id, { plan: { secret: "of acme" } });
    await put(over, { plan: {}, expires_at: Date.now() - 1 });

    for (const answer of [
      await get("/plans/nobodys"),
      await get(`/plans/${over}`),
      await get(`/plans/${id}`, "stranger"),
      await remove(id, "stranger"),
      await remove(over),
    ])
      assert.deepEqual([answer.status, answer.json.error], [404, "not_found"]);
    assert.ok(!(await get("/plans?limit=200")).json.items.some((row: { id: string }) => row.id === over));
    const theirs = await put(id, { plan: { mine: true } }, "stranger");
    assert.equal(theirs.status, 200, "one id is another plan in another tenant");
    assert.equal((await get(`/plans/${id}`)).json.plan.secret, "of acme");
    assert.equal((await put(over, { plan: {}, expires_at: null })).json.plan.edited.by, "paula", "it may be made anew");
    assert.equal((await get(`/plans/${over}`)).status, 200);
  });

  test("PLAN-007 a change based on an older plan gets the current one; of many, one succeeds", async () => {
    const id = fresh();
    const { json: row } = await put(id, { plan: { n: 0 } });
    const expected_updated_at = row.updated_at;

    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) => put(id, { plan: { n: n + 1 }, expected_updated_at })),
    );
    const gone = await put("never-was", { plan: {}, expected_updated_at: 1 });
    const blind = await Promise.all(Array.from({ length: 40 }, (_, n) => put(id, { plan: { blind: n } })));

    const taken = answers.filter(({ status }) => status === 200);
    assert.equal(taken.length, 1);
    for (const { status, json } of answers.filter((answer) => answer.status !== 200)) {
      assert.deepEqual([status, json.error, json.detail.error], [409, "plan_changed", "plan_changed"]);
      assert.deepEqual({ ...json.detail.current, agent_told: null }, taken[0]?.json);
    }
    assert.deepEqual([gone.status, gone.json.detail], [409, { error: "plan_changed", current: null }]);
    assert.deepEqual(new Set(blind.map(({ status }) => status)), new Set([200]));
    assert.equal(new Set(blind.map(({ json }) => json.updated_at)).size, 40, "each change has a time of its own");
  });

  test("PLAN-008 an edit is audited with its author, and a refused one is not", async () => {
    const id = fresh();
    await put(id, { plan: { a: 1 }, manifest_id: "deep" });
    await put(id, { plan: { a: 2 }, expected_updated_at: 1 });

    const { json } = await get("/audit?event_type=plan_edit&limit=200");

    const rows = json.items.filter((row: { payload: { plan_id: string } }) => row.payload.plan_id === id);
    assert.equal(rows.length, 1);
    assert.deepEqual(
      [rows[0].status, rows[0].manifest_id, rows[0].principal_subj, rows[0].payload.by],
      ["ok", "deep", "paula", "paula"],
    );
  });

  const words = (request: MockModel["requests"][number] | undefined) => shown(request).map(({ content }) => content);
  const notes = async (thread: string) =>
    (await server.get(`/chat/sessions/${thread}`, as("planner"))).json.transcript.filter(
      ({ kind }: { kind: string }) => kind === "custom",
    );
  const noteOf = (id: string) => `[plan] The user changed the plan "${id}". Read it again before you go on by it.`;
  /** Starts a turn whose model pauses after its first word until the gate opens. */
  async function begun(thread: string, ...next: Reply[]) {
    const more = gate();
    let count = 0;
    mock.answer("held", () => [says("One.", more.opened), ...next][count++] as Reply);
    const body = turn("deep", "go", { thread_id: thread, model: "held" });
    const stream = await server.stream("/chat/stream", body, as("planner"));
    await framesUntil(stream, ({ name }) => name === "text_delta");
    return {
      async rest() {
        more.open();
        return stream.rest();
      },
    };
  }

  test("PLAN-009 PLAN-010 without a run an edit is logged in its conversation, for the next turn", async () => {
    const { plan_id } = await planned("told-1");
    const answer = await put(plan_id, { plan: { title: "Obey me" }, manifest_id: "deep" });
    const refused = await put(plan_id, { plan: {}, expected_updated_at: 1 });
    const { json: read } = await get(`/plans/${plan_id}`);
    await run("told-1", []);

    const { agent_told, ...row } = answer.json;
    assert.deepEqual([answer.status, agent_told], [200, "recorded"]);
    assert.deepEqual(row, read, "only the answer to an edit has agent_told");
    assert.equal(refused.json.agent_told, undefined);
    const [note, ...others] = await notes("told-1");
    assert.deepEqual(others, [], "an edit that was refused is not told");
    assert.deepEqual([note.role, note.content], ["user", noteOf(plan_id)]);
    const { updated_at } = row;
    assert.deepEqual(note.metadata, { type: "plan_edit", kind: "plan", plan_id, updated_at, in_context: true });
    const seen = words(mock.requests.at(-1));
    assert.ok(seen.includes(noteOf(plan_id)), seen.join());
    assert.ok(!seen.join().includes("Obey me"), "what the plan says is the agent's to read");
  });

  test("PLAN-009 PLAN-010 during a run its next model call reads the last edit, and a frame says so", async () => {
    const { plan_id } = await planned("told-2");
    const { plan_id: other } = await planned("told-3");
    const run = await begun("told-2", { text: "Two." });
    const first = await put(plan_id, { plan: { n: 1 } });
    const second = await put(plan_id, { plan: { n: 2 } });
    const elsewhere = await put(other, { plan: {} });
    const before = await notes("told-2");
    await server.post("/chat/steer", { thread_id: "told-2", text: "On.", kind: "follow_up" }, as("planner"));
    const frames = await run.rest();

    assert.deepEqual(
      [first, second, elsewhere].map(({ json }) => json.agent_told),
      ["queued", "queued", "recorded"],
    );
    assert.deepEqual(before, []);
    const { updated_at } = second.json;
    assert.deepEqual(
      frames.flatMap(({ name, json }) => (name === "workspace_note" ? [json.data] : [])),
      [{ kind: "plan", plan_id, updated_at }],
    );
    assert.deepEqual(words(mock.requests.at(-1)).slice(-2), [noteOf(plan_id), "On."]);
    assert.equal((await notes("told-2")).length, 1);
  });

  test("PLAN-009 editing a plan without a thread notifies no agent, nor does another tenant's", async () => {
    const { plan_id } = await planned("told-4");
    const mine = await put(fresh(), { plan: {} });
    const theirs = await put(plan_id, { plan: {} }, "stranger");

    assert.deepEqual([mine.json.agent_told, theirs.json.agent_told], [null, null]);
    assert.equal(theirs.json.thread_id, "");
    assert.deepEqual(await notes("told-4"), []);
    assert.equal((await server.get("/chat/sessions/told-4", as("stranger"))).json.createdAt, null);
  });

  test("PLAN-009 an edit is stored even when too many notes wait for its agent", async () => {
    const { plan_id } = await planned("told-5");
    const run = await begun("told-5");
    for (let at = 0; at < notesMax; at++) {
      const { json } = await server.post(
        "/chat/workspace/edited",
        { thread_id: "told-5", path: `${at}` },
        as("planner"),
      );
      assert.equal(json.status, "queued");
    }
    const answer = await put(plan_id, { plan: { n: 1 } });
    await run.rest();

    assert.deepEqual([answer.status, answer.json.agent_told], [200, null]);
    assert.equal((await get(`/plans/${plan_id}`)).json.plan.n, 1);
    assert.ok(
      (await notes("told-5")).every(({ metadata }: { metadata: { type: string } }) => metadata.type !== "plan_edit"),
    );
  });

  test("PLAN-011 a deleted plan is 404", async () => {
    const id = fresh();
    await put(id, { plan: {} });

    const deleted = await remove(id);

    assert.deepEqual([deleted.status, deleted.json], [200, { status: "deleted" }]);
    assert.equal((await get(`/plans/${id}`)).status, 404);
    assert.equal((await remove(id)).status, 404);
  });

  test("PLAN-012 a filter lists one thread's plans; they are deleted with it and not forked", async () => {
    const thread = "deep-10";
    await planned(thread);
    await planned(thread);
    await planned("deep-100");
    const before = await get(`/plans?thread_id=${thread}`);
    const forked = await server.post("/chat/fork", { thread_id: thread, new_thread_id: "deep-11" }, as("planner"));

    assert.equal(forked.status, 200, forked.text);
    assert.deepEqual((await get("/plans?thread_id=deep-11")).json.items, []);
    await server.request("DELETE", `/chat/history/${thread}`, as("planner"));

    assert.equal(before.json.items.length, 2);
    assert.ok(before.json.items.every((row: { thread_id: string }) => row.thread_id === `acme:${thread}`));
    assert.deepEqual((await get(`/plans?thread_id=${thread}`)).json.items, []);
    assert.equal((await get(`/plans/${before.json.items[0].id}`)).status, 404);
    assert.equal((await get("/plans?thread_id=deep-100")).json.items.length, 1);
  });
});

test("PLAN-001 plans count for the tenant's quota, across a restart, until they are deleted", async () => {
  const atEnd = cleanup();
  const dataDir = tempDir(atEnd);
  const limited = { ...env, SVC_TENANT_STORED_BYTES: "3000" };
  const server = await startServerProcess({ atEnd, env: limited, dataDir });
  const put = (at: TestServer, id: string, letters: number, key = keys.planner) =>
    at.request("PUT", `/plans/${id}`, { key, body: { plan: { text: "x".repeat(letters) } } });

  assert.equal((await put(server, "one", 2000)).status, 200);
  const refused = await put(server, "two", 1000);
  await server.kill();
  const again = await startServerProcess({ atEnd, env: limited, dataDir });

  assert.deepEqual([refused.status, refused.json.error], [409, "storage_quota_exceeded"]);
  assert.equal((await put(again, "two", 1000)).status, 409);
  assert.equal((await put(again, "two", 1000, keys.stranger)).status, 200);
  assert.equal((await put(again, "one", 100)).status, 200, "a smaller one in its place gives back");
  assert.equal((await put(again, "two", 1000)).status, 200);
  await again.request("DELETE", "/plans/two", { key: keys.planner });
  assert.equal((await put(again, "one", 2000)).status, 200);
});
