// Requests for approval over HTTP: the gates of spec.approvals, the people who decide, and the results of the waiting
// calls.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import Database from "better-sqlite3";
import { calls, inTurn, never, says, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { Answer } from "../support/http-client.ts";
import type { Reply } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { sqliteIn } from "../support/seed.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({
  alice: { tenant_id: "acme", sub: "alice", scopes: ["chat:write", "approvals:write"] },
  bob: { tenant_id: "acme", sub: "bob", scopes: ["chat:write", "approvals:write"] },
  chatter: { tenant_id: "acme", sub: "chatter", scopes: ["chat:write"] },
  reader: { tenant_id: "acme", sub: "reader", scopes: ["chat:read", "approvals:read"] },
  admin: { tenant_id: "acme", sub: "admin", scopes: ["*"] },
  stranger: { tenant_id: "globex", sub: "eve", scopes: ["*"] },
});

const sum = (expression: string) => ["calculator", { expression }] as const;
const tools = ["calculator", "write_file", "edit_file", "multi_edit", "read_file", "list_dir"];
const gate = (rule: object) => ({ tools, approvals: [{ id: "sums", tools: ["calculator"], ...rule }] });

describe("approvals", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  let workspace: string;
  let threads = 0;
  before(async () => {
    workspace = tempDir(atEnd);
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["scripted", "slow"],
      manifests: {
        plain: gate({ description: "Sums cost money." }),
        timed: gate({ ttl_seconds: 600 }),
        brief: gate({ ttl_seconds: 0.5 }),
        once: { ...gate({ one_shot: true, ttl_seconds: 600 }), execution: { tools: "parallel" } },
        bound: gate({ bind_principal: true, ttl_seconds: 600 }),
        other: gate({ require_other: true }),
        args: {
          tools,
          approvals: [
            { id: "all", tools: ["*"] },
            { id: "appends", tools: ["write_file"], when_args: ["append"] },
            { id: "reads", tools: ["read_file"], when_args: ["offset", "limit"] },
          ],
        },
        files: { tools, approvals: [{ id: "files", tools: ["*_file", "multi_edit"], description: "Files are kept." }] },
        policed: {
          ...gate({ ttl_seconds: 600 }),
          policies: [{ id: "writes", required_scopes: ["approvals:write"], tools: ["calculator"] }],
        },
        publishing: {
          client_tools: [
            {
              name: "publish",
              args_schema: {
                type: "object",
                properties: { text: { type: "string" }, preview: { type: "boolean" } },
                required: ["text", "preview"],
              },
            },
          ],
          approvals: [{ id: "publishes", tools: ["publish"] }],
        },
        costly: {
          client_tools: [
            {
              name: "post",
              args_schema: {
                type: "object",
                properties: { list: { items: { anyOf: [...Array(490).fill({ const: 1 }), { type: "integer" }] } } },
              },
            },
          ],
          approvals: [{ id: "posts", tools: ["post"] }],
        },
        beside: {
          ...gate({ ttl_seconds: 600 }),
          execution: { tools: "parallel" },
          delegation: { agents: [{ name: "slow" }] },
        },
        slow: { model: { id: "slow" } },
        waived: { tools, approvals: [{ id: "sums", tools: ["calculator"] }], limits: { max_wall_clock_seconds: 2 } },
      },
      env: { ...env, SVC_WORKSPACE_ROOT: workspace },
    }));
  });

  /** Returns a thread that no other test uses. */
  const fresh = (): string => `t${++threads}`;
  const as = (who: keyof typeof keys) => ({ key: keys[who] });
  /** Returns a sum that no other test uses, because equal calls share one approval request. */
  const unique = (): string => `1+${1000 + ++threads}`;
  const totalOf = (expression: string): string => String(1 + Number(expression.slice(2)));

  function say(...replies: Reply[]): void {
    mock.answer("scripted", inTurn(...replies));
  }
  const ask = (manifest: string, thread: string | null, who: keyof typeof keys = "alice", fields: object = {}) =>
    server.post(
      "/chat",
      turn(manifest, "go", { model: "scripted", ...(thread !== null && { thread_id: thread }), ...fields }),
      as(who),
    );
  const stream = (manifest: string, thread: string | null, who: keyof typeof keys = "alice") =>
    server.stream(
      "/chat/stream",
      turn(manifest, "go", { model: "scripted", ...(thread !== null && { thread_id: thread }) }),
      as(who),
    );
  const listed = async (query: string, who: keyof typeof keys = "reader") => {
    const answer = await server.get(`/approvals?${query}`, as(who));
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(answer.json.items, answer.json.requests);
    return answer.json.items as Record<string, unknown>[];
  };
  /** The single pending request of a thread. */
  const pending = (thread: string) =>
    eventually("a request", async () => (await listed(`thread_id=${thread}`))[0] as Record<string, string> | undefined);
  const decide = (id: string | undefined, body: object, who: keyof typeof keys = "bob"): Promise<Answer> =>
    server.post(`/approvals/${id}/decide`, body, as(who));
  const results = (answer: Answer): string[] =>
    answer.json.messages
      .filter(({ role }: { role: string }) => role === "tool")
      .map((m: { content: string }) => m.content);
  const outputs = (frames: readonly Frame[]) =>
    frames.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);

  test("APPR-001 APPR-003 APPR-004 a call waits, is listed while POST /chat blocks, and runs on approval", async () => {
    const [thread, expression] = [fresh(), unique()];
    say(calls(sum(expression)), { text: "Done." });

    const answer = ask("timed", thread);
    const row = await pending(thread);
    const decided = await decide(row.approval_id, { decision: "approved", note: "go on" });
    const told = await answer;

    assert.equal(decided.status, 200, decided.text);
    const { created_at, expires_at, decided_at, call_signature, ...rest } = decided.json;
    assert.deepEqual(rest, {
      approval_id: row.approval_id,
      id: row.approval_id,
      tenant_id: "acme",
      manifest_id: "timed",
      tool_name: "calculator",
      args: { expression },
      evidence: { effect: "read", risk: "reads", cost_usd: rest.evidence.cost_usd, tool_calls: 1 },
      rule_id: "sums",
      reason: "",
      status: "approved",
      principal_subj: "alice",
      thread_id: `acme:${thread}`,
      tool_call_id: "call_1",
      ttl_seconds: 600,
      decided_by: "bob",
      decision_note: "go on",
      edited_args: null,
      consumed_at: null,
    });
    assert.deepEqual([expires_at - created_at, call_signature.length], [600_000, 64]);
    assert.ok(decided_at >= created_at);
    assert.equal(row.status, "pending");
    assert.deepEqual(results(told), [totalOf(expression)]);
    assert.deepEqual(told.json.approvals, [
      {
        approval_id: row.approval_id,
        tool_name: "calculator",
        args: { expression },
        rule_id: "sums",
        reason: "",
        thread_id: `acme:${thread}`,
        tool_call_id: "call_1",
        expires_at,
        status: "approved",
      },
    ]);
  });

  test("APPR-002 APPR-011 APPR-012 the answer has the outcome of each gate, and the model reads the reason", async () => {
    for (const [manifest, body, status, note] of [
      ["plain", { status: "denied", note: "too\ndear" }, "denied", "too dear"],
      ["plain", { status: "denied" }, "denied", "denied"],
      ["brief", null, "expired", "timeout"],
    ] as const) {
      const thread = fresh();
      say(calls(sum(unique())), { text: "Done." });
      const answer = ask(manifest, thread);
      const row = await pending(thread);
      if (body !== null) assert.equal((await decide(row.approval_id, body)).status, 200);
      const told = await answer;

      assert.deepEqual(results(told), [`[approval ${note}] tool=calculator rule=sums`]);
      assert.deepEqual(
        told.json.approvals.map((each: { status: string }) => each.status),
        [status],
      );
      const now = await server.get(`/approvals/${row.approval_id}`, as("reader"));
      assert.deepEqual(
        [now.json.status, now.json.decision_note.replace(/\s/g, " ")],
        [status, body === null ? "timeout" : "note" in body ? "too dear" : ""],
      );
      const late = await decide(row.approval_id, { decision: "approved" });
      assert.deepEqual(
        [late.status, late.json],
        [
          409,
          { error: status === "expired" ? "approval_expired" : "approval_not_pending", detail: { current: status } },
        ],
      );
    }
  });

  test("APPR-005 APPR-007 the reason is the rule's description; without ttl_seconds there is no expires_at", async () => {
    const thread = fresh();
    say(calls(sum(unique())), { text: "Done." });
    const streamed = await stream("plain", thread);
    const { json } = await streamed.until("approval_required");
    const { evidence, args: _args, ...data } = json.data;

    const row = await pending(thread);
    assert.deepEqual([row.reason, row.expires_at, row.decision_note], ["Sums cost money.", null, ""]);
    assert.deepEqual(data, {
      approval_id: row.approval_id,
      tool_name: "calculator",
      rule_id: "sums",
      reason: "Sums cost money.",
      thread_id: `acme:${thread}`,
      tool_call_id: "call_1",
      expires_at: null,
    });
    assert.deepEqual(evidence, row.evidence);
    await decide(row.approval_id, { decision: "denied" });
    const rest = await streamed.rest();
    assert.equal(rest.at(-1)?.name, "[DONE]");
  });

  test("LIM-003 a request stays open for its rule's time, five minutes by default", async () => {
    for (const [manifest, seconds] of [
      ["plain", 300],
      ["timed", 600],
    ] as const) {
      const thread = fresh();
      say(calls(sum(unique())), { text: "Done." });
      const answer = ask(manifest, thread);
      const { approval_id } = await pending(thread);

      const config = sqliteIn(server.dataDir);
      assert.ok(config.engine === "sqlite");
      const db = new Database(config.path, { readonly: true });
      // The request becomes readable shortly before the row of the waiting call exists.
      const wait = await eventually("a call that waits", async () =>
        db
          .prepare<[string | undefined], { opened_at: number; deadline: number }>(
            "SELECT opened_at, deadline FROM waits WHERE approval_id = ?",
          )
          .get(approval_id),
      );
      db.close();
      await decide(approval_id, { decision: "denied" });
      await answer;

      const stood = (wait.deadline - wait.opened_at) / 1000;
      assert.ok(Math.abs(stood - seconds) < 5, `${manifest}: ${stood} s`);
    }
  });

  test("APPR-006 a stateless turn waits in memory; its client's leaving ends it and its request", async () => {
    const [first, second] = [unique(), unique()];
    say(calls(sum(first)), { text: "Done." });
    const answer = ask("plain", null);
    const row = await eventually("a request", async () => (await listed("thread_id="))[0]);
    assert.deepEqual([row.thread_id, row.tool_call_id], ["", ""]);
    assert.equal((await decide(row.approval_id as string, { decision: "approved" })).status, 200);
    assert.deepEqual(results(await answer), [totalOf(first)]);

    say(calls(sum(second)), { text: "Done." });
    const left = await stream("plain", null);
    const { json } = await left.until("approval_required");
    left.close();
    const closed = await eventually("a closed request", async () => {
      const { json: now } = await server.get(`/approvals/${json.data.approval_id}`, as("reader"));
      return now.status === "pending" ? undefined : now;
    });
    assert.deepEqual([closed.status, closed.decision_note, closed.decided_by], ["denied", "aborted", "svc"]);

    say(calls(sum(unique())), { text: "Done." });
    assert.deepEqual(results(await ask("brief", null)), ["[approval timeout] tool=calculator rule=sums"]);
  });

  test("APPR-008 the diff of a file is shown, is no argument, and does not reach the tool", async () => {
    const thread = fresh();
    const write = { path: "notes.txt", content: "one\ntwo\nthree\n" };
    const edit = { path: "notes.txt", old_string: "two", new_string: "2" };
    say(calls(["write_file", write]), calls(["edit_file", edit]), { text: "Done." });
    const answer = ask("files", thread);
    const previews: unknown[] = [];
    for (const made of [write, edit]) {
      const { approval_id, args } = (await eventually("a request", async () => {
        const [row] = await listed(`thread_id=${thread}`);
        return (row?.args as { content?: string } | undefined)?.content === (made as { content?: string }).content
          ? row
          : undefined;
      })) as { approval_id: string; args: { preview: string } };
      previews.push(args.preview);
      const edited_args = made === edit ? { ...edit, new_string: "zwei", preview: "x" } : null;
      const decided = await decide(approval_id, { decision: "approved", edited_args });
      assert.equal(decided.status, 200, decided.text);
    }
    const told = await answer;

    assert.deepEqual(previews, [
      "--- /dev/null\n+++ b/notes.txt\n@@ -0,0 +1,3 @@\n+one\n+two\n+three\n",
      "--- a/notes.txt\n+++ b/notes.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
    ]);
    const ran = `[run with arguments that a person has edited: ${JSON.stringify({ ...edit, new_string: "zwei" })}]`;
    assert.deepEqual(results(told), ["wrote notes.txt (14 bytes)", `${ran}\nwrote notes.txt (15 bytes)`]);
  });

  test("APPR-008 APPR-021 a tool's own argument named diff is shown, editable and passed to the tool", async () => {
    say(calls(["publish", { text: "draft", preview: true }]), { text: "Done." });
    const asking = await stream("publishing", fresh(), "admin");
    const { json } = await asking.until("approval_required");

    const edited_args = { text: "final", preview: false };
    const decided = await decide(json.data.approval_id, { decision: "approved", edited_args });
    assert.equal(decided.status, 200, decided.text);
    const request = await asking.until("tool_request");

    assert.equal(json.data.args.preview, true);
    assert.deepEqual(decided.json.edited_args, edited_args);
    assert.deepEqual(request.json.data.args, edited_args);
    asking.close();
  });

  test("APPR-009 equal calls of two threads share a request, and one decision applies to both", async () => {
    const [one, two, expression] = [fresh(), fresh(), unique()];
    say(calls(sum(expression)), { text: "Done." });
    const first = ask("plain", one);
    const row = await pending(one);
    const second = await stream("plain", two, "bob");
    const { json } = await second.until("approval_required");

    assert.deepEqual([json.data.approval_id, json.data.thread_id], [row.approval_id, `acme:${two}`]);
    assert.deepEqual(await listed(`thread_id=${two}`), []);
    await decide(row.approval_id, { decision: "approved" });
    assert.deepEqual(results(await first), [totalOf(expression)]);
    assert.deepEqual(outputs(await second.rest()), [totalOf(expression)]);
  });

  test("APPR-009 an abort closes a request only when no other call waits for it", async () => {
    const [one, two, expression] = [fresh(), fresh(), unique()];
    say(calls(sum(expression)), { text: "Done." });
    const first = ask("plain", one);
    const row = await pending(one);
    const second = await stream("plain", two);
    await second.until("approval_required");

    assert.equal((await server.post("/chat/abort", { thread_id: one }, as("alice"))).json.aborted, true);
    const still = await server.get(`/approvals/${row.approval_id}`, as("reader"));
    assert.equal((await server.post("/chat/abort", { thread_id: two }, as("alice"))).json.aborted, true);
    const closed = await server.get(`/approvals/${row.approval_id}`, as("reader"));

    assert.equal(still.json.status, "pending");
    assert.deepEqual([closed.json.status, closed.json.decision_note], ["denied", "aborted"]);
    assert.equal((await decide(row.approval_id, { decision: "approved" })).json.error, "approval_not_pending");
    assert.match(results(await first).join(), /not run: the run was stopped/);
    const started = (await second.rest()).filter(({ name }) => name === "tool_start");
    assert.deepEqual(started, []);
  });

  test("APPR-010 an approval lets equal calls pass until it ends, and no others", async () => {
    const [thread, expression] = [fresh(), unique()];
    say(calls(sum(expression)), calls(sum(expression)), calls(sum(`${expression}0`)), { text: "Done." });
    const answer = ask("timed", thread);
    const row = await pending(thread);
    await decide(row.approval_id, { decision: "approved" });
    const next = await eventually("the other request", async () => {
      const [found] = await listed(`thread_id=${thread}`);
      return found?.approval_id === row.approval_id ? undefined : found;
    });
    assert.deepEqual(next.args, { expression: `${expression}0` });
    await decide(next.approval_id as string, { decision: "denied" });

    assert.equal(results(await answer).length, 3);
    // An approval does not count for another manifest.
    say(calls(sum(expression)), { text: "Done." });
    const elsewhere = fresh();
    const other = ask("plain", elsewhere);
    await decide((await pending(elsewhere)).approval_id, { decision: "denied" });
    assert.match(results(await other).join(), /\[approval denied\]/);
  });

  test("APPR-014 an approval for one call admits one of several waiting and later calls", async () => {
    const [thread, expression] = [fresh(), unique()];
    say(calls(sum(expression), sum(expression)), calls(sum(expression)), { text: "Done." });
    const answer = ask("once", thread);
    const row = await pending(thread);
    await eventually("both", async () => {
      const snapshot = await server.get(`/chat/sessions/${thread}`, as("alice"));
      const opened = snapshot.json.transcript.filter(
        (e: { metadata: { type?: string } }) => e.metadata.type === "wait_opened",
      );
      return opened.length === 2;
    });
    await decide(row.approval_id, { decision: "approved" });
    const again = await eventually("a second request", async () => {
      const [found] = await listed(`thread_id=${thread}`);
      return found;
    });
    assert.notEqual(again.approval_id, row.approval_id);
    await decide(again.approval_id as string, { decision: "denied" });
    const told = await answer;

    const [first, second, third] = results(told);
    assert.deepEqual(
      [first, second].sort(),
      ["[approval used by another call] tool=calculator rule=sums", totalOf(expression)].sort(),
    );
    assert.match(third ?? "", /\[approval denied\]/);
    const used = await server.get(`/approvals/${row.approval_id}`, as("reader"));
    assert.ok(used.json.consumed_at >= used.json.decided_at);
  });

  test("APPR-015 a caller-bound request and its approval apply to no other caller", async () => {
    const [one, two, three, expression] = [fresh(), fresh(), fresh(), unique()];
    say(calls(sum(expression)), { text: "Done." });
    const first = ask("bound", one);
    const row = await pending(one);
    const refused = await ask("bound", two, "bob");
    await decide(row.approval_id, { decision: "approved" });
    await first;
    const own = await ask("bound", two, "alice");
    const foreign = ask("bound", three, "bob");
    const theirs = await pending(three);
    await decide(theirs.approval_id, { decision: "denied" });

    assert.deepEqual(results(refused), ["[approval pending for another principal] tool=calculator rule=sums"]);
    assert.deepEqual(results(own).at(-1), totalOf(expression));
    assert.notEqual(theirs.approval_id, row.approval_id);
    await foreign;
  });

  test("APPR-017 APPR-018 requests are listed by status and thread, in pages", async () => {
    const [one, two] = [fresh(), fresh()];
    say(calls(sum(unique()), sum(unique())), { text: "Done." });
    const first = ask("plain", one);
    const row = await pending(one);
    say(calls(sum(unique())), { text: "Done." });
    const second = ask("plain", two);
    await pending(two);

    assert.deepEqual(
      (await listed(`thread_id=${one}&limit=1`)).map(({ approval_id }) => approval_id),
      [row.approval_id],
    );
    assert.deepEqual(await listed(`thread_id=acme:${one}`), await listed(`thread_id=${one}`));
    assert.ok((await listed("")).length >= 2);
    assert.ok((await listed("thread_id=")).every(({ thread_id }) => thread_id === ""));
    assert.ok((await listed("status=approved")).every(({ status }) => status === "approved"));
    const page = await server.get("/approvals?limit=1", as("reader"));
    const next = await server.get(`/approvals?limit=200&cursor=${page.json.next_cursor}`, as("reader"));
    const ids = [...page.json.items, ...next.json.items].map(({ approval_id }) => approval_id);
    assert.deepEqual(ids, [...new Set((await listed("limit=200")).map(({ approval_id }) => approval_id))]);
    for (const bad of ["limit=0", "limit=201", "status=open", "limit=x"])
      assert.equal((await server.get(`/approvals?${bad}`, as("reader"))).status, 422, bad);
    for (const thread of [one, two]) await server.post("/chat/abort", { thread_id: thread }, as("alice"));
    await Promise.all([first, second]);
    assert.deepEqual(await listed(`thread_id=${one}`), []);
  });

  test("APPR-019 APPR-020 AUTH-012 a request is visible to its readers and deciders, and decisions are validated", async () => {
    const thread = fresh();
    say(calls(sum(unique())), { text: "Done." });
    const answer = ask("plain", thread);
    const { approval_id: id } = await pending(thread);

    const get = (who: keyof typeof keys, path = `/approvals/${id}`) => server.get(path, as(who));
    assert.deepEqual((await get("reader")).json, (await listed(`thread_id=${thread}`))[0]);
    for (const [who, status] of [
      ["stranger", 404],
      ["chatter", 403],
      ["alice", 200],
    ] as const)
      assert.equal((await get(who)).status, status, who);
    assert.equal((await get("reader", "/approvals/nothing")).status, 404);
    const wrong: readonly (readonly [object, number, string])[] = [
      [{}, 422, "invalid_request"],
      [{ decision: "maybe" }, 422, "invalid_request"],
      [{ decision: "approved", status: "denied" }, 422, "invalid_request"],
      [{ decision: "denied", edited_args: { expression: "1" } }, 422, "invalid_request"],
      [{ decision: "approved", edited_args: [] }, 422, "invalid_request"],
      [{ decision: "approved", edited_args: { nothing: 1 } }, 422, "invalid_edited_args"],
      [{ decision: "approved", edited_args: {} }, 422, "invalid_edited_args"],
      [{ decision: "approved", more: 1 }, 422, "invalid_request"],
      [{ decision: "approved", note: "x".repeat(2049) }, 422, "invalid_request"],
    ];
    for (const [body, status, error] of wrong) {
      const refused = await decide(id, body);
      assert.deepEqual([refused.status, refused.json.error], [status, error], JSON.stringify(body));
    }
    assert.equal((await decide(id, { decision: "approved" }, "reader")).status, 403);
    // A request of another tenant is answered like an unknown id.
    const foreign = [await get("stranger"), await decide(id, { decision: "approved" }, "stranger")];
    const none = [await get("stranger", "/approvals/nothing"), await decide("nothing", { decision: "approved" })];
    assert.deepEqual(
      foreign.map(({ status, text }) => [status, text]),
      none.map(({ status, text }) => [status, text]),
    );
    assert.equal(none[1]?.status, 404);
    const both = await Promise.all([
      decide(id, { status: "approved" }),
      decide(id, { decision: "denied" }, "admin"),
      decide(id, { decision: "approved" }, "alice"),
    ]);
    assert.deepEqual(both.map(({ status }) => status).sort(), [200, 409, 409]);
    const told = await answer;
    const [won] = both.filter(({ status }) => status === 200);
    assert.equal(told.json.approvals[0].status, won?.json.status);
  });

  test("APPR-020 edited arguments too costly to check are refused; the request stays pending", async () => {
    const thread = fresh();
    say(calls(["post", { list: [1] }]), { text: "Done." });
    const answer = ask("costly", thread);
    const { approval_id: id } = await pending(thread);

    const refused = await decide(id, { decision: "approved", edited_args: { list: Array(50_000).fill(0) } });
    const still = await pending(thread);
    const short = await decide(id, { decision: "approved", edited_args: { list: [0] } });

    assert.deepEqual([refused.status, refused.json.error], [422, "invalid_edited_args"], refused.text);
    assert.equal(refused.json.detail, "the value takes more than 1000000 steps to check");
    assert.equal(still.approval_id, id);
    assert.equal(short.status, 200, short.text);
    await server.post("/chat/abort", { thread_id: thread }, as("alice"));
    await answer;
  });

  test("APPR-020 a rule that requires another person refuses the requester", async () => {
    const thread = fresh();
    const expression = unique();
    say(calls(sum(expression)), { text: "Done." });
    const answer = ask("other", thread);
    const { approval_id: id } = await pending(thread);

    const own = await decide(id, { decision: "approved" }, "alice");
    assert.deepEqual([own.status, own.json.error], [403, "same_principal"]);
    assert.equal((await decide(id, { decision: "approved" }, "bob")).status, 200);
    assert.deepEqual(results(await answer), [totalOf(expression)]);
    // The decider does not profit from the approval: bob's equal call opens a new request.
    const bobs = fresh();
    const asked = ask("other", bobs, "bob");
    const again = await pending(bobs);
    assert.equal((await decide(again.approval_id, { decision: "approved" }, "bob")).status, 403);
    await decide(again.approval_id, { decision: "denied" }, "alice");
    assert.match(results(await asked).join(), /\[approval denied\]/);
  });

  test("APPR-020 a caller that joined a request may not decide it either", async () => {
    const [one, two, expression] = [fresh(), fresh(), unique()];
    say(calls(sum(expression)), { text: "Done." });
    const first = ask("other", one, "alice");
    const { approval_id: id } = await pending(one);
    const second = ask("other", two, "bob");
    await eventually("a second who waits", async () => {
      const { transcript } = (await server.get(`/chat/sessions/${two}`, as("alice"))).json;
      return transcript.at(-1)?.metadata.type === "wait_opened";
    });

    for (const who of ["alice", "bob"] as const) {
      const refused = await decide(id, { decision: "approved" }, who);
      assert.deepEqual([refused.status, refused.json.error], [403, "same_principal"]);
    }
    assert.equal((await decide(id, { decision: "approved" }, "admin")).status, 200);
    for (const told of await Promise.all([first, second])) assert.deepEqual(results(told), [totalOf(expression)]);
  });

  test("APPR-020 the first requester may not decide, even after its call stopped waiting", async () => {
    const [one, two, expression] = [fresh(), fresh(), unique()];
    say(calls(sum(expression)), { text: "Done." });
    const first = ask("other", one, "alice");
    const { approval_id: id } = await pending(one);
    const second = ask("other", two, "bob");
    await eventually("a second who waits", async () => {
      const { transcript } = (await server.get(`/chat/sessions/${two}`, as("alice"))).json;
      return transcript.at(-1)?.metadata.type === "wait_opened";
    });
    await server.post("/chat/abort", { thread_id: one }, as("alice"));
    await first;

    const refused = await decide(id, { decision: "approved" }, "alice");
    await decide(id, { decision: "denied" }, "admin");

    assert.deepEqual([refused.status, refused.json.error], [403, "same_principal"]);
    assert.match(results(await second).join(), /approval denied/);
  });

  test("APPR-020 a grant of a looser rule lets no call of a stricter rule pass", async () => {
    const expression = unique();
    const rule = { id: "sums", tools: ["calculator"], ttl_seconds: 600 };
    const publish = async (stricter: object) => {
      const spec = { tools, approvals: [{ ...rule, ...stricter }] };
      const body = { manifest: { metadata: { name: "changing" }, spec } };
      const { status, text } = await server.request("PUT", "/manifests/changing", { ...as("admin"), body });
      assert.ok(status < 300, text);
    };
    const passes = async (): Promise<boolean> => {
      const thread = fresh();
      say(calls(sum(expression)), { text: "Done." });
      const answer = ask("changing", thread);
      const first = await Promise.race([answer.then(() => null), pending(thread)]);
      if (first !== null) await decide(first.approval_id, { decision: "approved" });
      assert.deepEqual(results(await answer), [totalOf(expression)]);
      return first === null;
    };

    const seen: boolean[] = [];
    for (const stricter of [
      {},
      {},
      { one_shot: true },
      { bind_principal: true },
      { require_other: true },
      { id: "x" },
    ]) {
      await publish(stricter);
      seen.push(await passes());
    }

    assert.deepEqual(seen, [false, true, false, false, false, false]);
  });

  test("APPR-021 edited arguments replace the model's, for equal calls too, and pass policies", async () => {
    const [thread, expression, edited] = [fresh(), unique(), unique()];
    say(calls(sum(expression)), calls(sum(expression)), { text: "Done." });
    const answer = ask("policed", thread);
    const { approval_id: id } = await pending(thread);
    const decided = await decide(id, { decision: "approved", edited_args: { expression: edited } });
    assert.deepEqual(decided.json.edited_args, { expression: edited });
    const told = await answer;
    const ran = `[run with arguments that a person has edited: {"expression":"${edited}"}]\n${totalOf(edited)}`;
    assert.deepEqual(results(told), [ran, ran]);
    // The message keeps the arguments that the model wrote; the intent has the edited arguments that ran.
    const { json } = await server.get(`/chat/sessions/${thread}`, as("alice"));
    const intents = json.transcript.filter(({ kind }: { kind: string }) => kind === "tool_call");
    assert.deepEqual(
      intents.map(({ metadata }: { metadata: { args?: object } }) => metadata.args),
      [{ expression: edited }, { expression: edited }],
    );
    // Policies run first: a call that they deny opens no approval request.
    const refused = await ask("policed", fresh(), "chatter");
    assert.match(results(refused).join(), /^denied by policy/);
  });

  test("GOV-017 an exact name has priority over a glob, and only matching arguments wait", async () => {
    const thread = fresh();
    say(
      calls(["write_file", { path: "a", content: "x", append: false }]),
      calls(["write_file", { path: "b", content: "x" }]),
      calls(["read_file", { path: "b", offset: 1 }]),
      { text: "Done." },
    );
    const answer = ask("args", thread);
    const row = await pending(thread);
    assert.deepEqual([row.rule_id, row.tool_name], ["appends", "write_file"]);
    await decide(row.approval_id, { decision: "denied" });
    assert.deepEqual(
      results(await answer).map((text) => text.slice(0, 9)),
      ["[approval", "wrote b (", "x"],
    );

    const bad = (rule: object) => ({
      manifest: { metadata: { name: "bad" }, spec: { tools: ["calculator"], approvals: [rule] } },
    });
    const unknown = await server.request("PUT", "/manifests/bad", {
      ...as("admin"),
      body: bad({ id: "x", tools: ["calc*"], when_args: ["expresion"] }),
    });
    assert.equal(unknown.status, 422);
    assert.match(unknown.text, /names the argument expresion/);
  });

  test("STREAM-033 early and late listeners get a gate once, and none without the scope", async () => {
    const thread = fresh();
    say(calls(sum(unique())), { text: "Done." });
    const early = await server.listen(`/chat/stream/${thread}`, as("alice"));
    const blind = await server.listen(`/chat/stream/${thread}`, as("chatter"));
    await Promise.all([early.until("snapshot"), blind.until("snapshot")]);
    const answer = ask("plain", thread);
    const heard = await early.until("approval_required");
    const late = await server.listen(`/chat/stream/${thread}`, as("reader"));
    const told = await late.until("approval_required");
    assert.deepEqual(told.json.data, heard.json.data);

    await decide(heard.json.data.approval_id, { decision: "denied" });
    await answer;
    for (const each of [early, late]) await each.until("session_event");
    const after = await server.listen(`/chat/stream/${thread}`, as("reader"));
    await after.until("snapshot");
    for (const each of [early, late, blind, after]) each.close();
    assert.equal(early.text.split('"event":"approval_required"').length, 2);
    assert.equal(late.text.split('"event":"approval_required"').length, 2);
    for (const each of [blind, after]) assert.ok(!each.text.includes('"event":"approval_required"'));
  });

  test("STREAM-033 a listener gets every gate, though each turn's calls have the same ids", async () => {
    const thread = fresh();
    const listener = await server.listen(`/chat/stream/${thread}`, as("reader"));
    await listener.until("snapshot");
    const ids: string[] = [];
    for (const _turn of [1, 2]) {
      say(calls(sum(unique())), { text: "Done." });
      const answer = ask("plain", thread);
      const { json } = await listener.until("approval_required");
      assert.equal(json.data.tool_call_id, "call_1");
      ids.push(json.data.approval_id);
      await decide(json.data.approval_id, { decision: "denied" });
      await answer;
    }
    listener.close();
    assert.equal(new Set(ids).size, 2);
  });

  test("APPR-010 a call that waits over a SIGKILL is decided, runs once, and is fully logged", async () => {
    const thread = fresh();
    const expired = fresh();
    const expression = unique();
    say(calls(["write_file", { path: "kept.txt", content: "kept" }]), { text: "Done." });
    const cut = ask("files", thread).catch(() => null);
    const { approval_id: id } = await pending(thread);
    say(calls(sum(expression)), { text: "Done." });
    const lapsed = ask("brief", expired).catch(() => null);
    await pending(expired);
    await eventually("two runs that are put aside", async () => {
      const { text } = await server.get("/metrics", as("admin"));
      return /^svc_live_runs 0$/m.test(text) || undefined;
    });
    await server.kill();
    await Promise.all([cut, lapsed]);
    await server.restart();

    say({ text: "Never." }, { text: "Done." });
    assert.equal((await pending(thread)).approval_id, id);
    const decided = await decide(id, { decision: "approved" });
    assert.equal(decided.status, 200, decided.text);
    const log = async (of: string) => {
      const { json } = await server.get(`/chat/sessions/${of}`, as("alice"));
      return json.transcript.map((e: { kind: string; content: string }) => e.content || e.kind) as string[];
    };
    const done = (of: string) =>
      eventually("the end", async () => ((await log(of)).at(-1) === "Done." ? log(of) : undefined));
    assert.deepEqual((await done(thread)).slice(-4), ["audit", "tool_call", "wrote kept.txt (4 bytes)", "Done."]);
    assert.deepEqual((await done(expired)).slice(-2), ["[approval timeout] tool=calculator rule=sums", "Done."]);
  });

  test("APPR-009 a request is closed when its run is cut off in another call", async () => {
    const thread = fresh();
    say(calls(sum(unique()), ["task", { agent: "slow", prompt: "Take your time." }]), { text: "Never." });
    mock.answer("slow", says("I am at", never));
    const asking = await stream("beside", thread, "admin");
    const { json } = await asking.until("approval_required");
    await eventually("the other call", async () => mock.requests.some(({ model }) => model === "slow"));

    await server.kill();
    await server.restart();
    const history = await server.get(`/chat/history/${thread}`, as("admin"));
    const request = await server.get(`/approvals/${json.data.approval_id}`, as("admin"));

    assert.match(history.text, /an earlier run was interrupted/);
    assert.deepEqual([request.json.status, request.json.decision_note], ["denied", "aborted"]);
  });

  test("OPS-014 gates are counted by manifest, tool and rule, and decisions are audited", async () => {
    const thread = fresh();
    say(calls(sum(unique())), { text: "Done." });
    const answer = ask("plain", thread);
    const { approval_id: id } = await pending(thread);
    await decide(id, { decision: "denied", note: "no" });
    await answer;

    const metrics = await server.get("/metrics", as("admin"));
    assert.match(metrics.text, /svc_approval_required_total\{manifest_id="plain",tool="calculator",rule="sums"\} \d+/);
    const { json } = await server.get("/audit?event_type=approval_decided", as("admin"));
    const [{ status, principal_subj, payload }] = json.items;
    assert.deepEqual([status, principal_subj, payload.approval_id, payload.note], ["denied", "bob", id, "no"]);
    const denied = await eventually("the denial", async () => {
      const rows = (await server.get("/audit?event_type=policy_deny", as("admin"))).json.items;
      return rows.find((row: { payload: { thread_id: string } }) => row.payload.thread_id === `acme:${thread}`);
    });
    assert.deepEqual([denied.payload.control, denied.payload.reason], ["approvals", "no"]);
  });

  test("APPR-012 the run's time ends a wait too, and a deleted thread leaves no arguments", async () => {
    const thread = fresh();
    const expression = unique();
    say(calls(sum(expression)), { text: "Done." });
    const told = await ask("waived", thread);
    assert.match(results(told).join(), /\[approval timeout\]/);
    assert.equal(told.json.approvals[0].status, "expired");
    const id = told.json.approvals[0].approval_id;
    assert.equal((await server.get(`/approvals/${id}`, as("reader"))).json.status, "expired");
    assert.equal((await server.request("DELETE", `/chat/history/${thread}`, as("alice"))).status, 200);
    assert.equal((await server.get(`/approvals/${id}`, as("reader"))).status, 404);
  });
});
