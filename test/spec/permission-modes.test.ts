// Permission modes over HTTP: the permission to set them, their effect on runs, and the end of plan mode.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { permissionModes as modes, type PermissionMode } from "../../bus/protocol/permission-mode.ts";
import { calls, gate, inTurn, says, startChatProcess, turn } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { Answer } from "../support/http-client.ts";
import type { Reply } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type ProcessServer } from "../support/server.ts";
import type { Frame } from "../support/sse-frames.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const { env, keys } = apiKeys({
  alice: { scopes: ["chat:write", "chat:read", "approvals:write", "approvals:bypass"] },
  bob: { scopes: ["chat:write", "chat:read", "approvals:write"] },
  reader: { scopes: ["chat:read", "approvals:read"] },
  admin: { scopes: ["*"] },
  stranger: { tenant_id: "globex", sub: "eve", scopes: ["*"] },
});

const tools = ["calculator", "list_dir", "write_file", "todo_write"];
const approvals = [{ id: "gate", tools: ["write_file", "calculator"] }];
const all = [...modes];

describe("permission modes", () => {
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
        agent: { tools, approvals, permissions: { allowed_modes: all }, workspace: { scope: "tenant" } },
        plain: { tools, approvals, workspace: { scope: "tenant" } },
        strict: {
          tools,
          approvals: [{ id: "gate", tools: ["write_file"], require_other: true }],
          workspace: { scope: "tenant" },
        },
        planner: { tools, permissions: { default_mode: "plan" }, workspace: { scope: "tenant" } },
        stuck: { tools, permissions: { allowed_modes: ["plan"], default_mode: "plan" } },
        sequel: { tools, approvals, execution: { tools: "parallel" }, workspace: { scope: "tenant" } },
        closed: { tools, auth: { inbound: { required_scopes: ["special"] } } },
      },
      env: { ...env, SVC_WORKSPACE_ROOT: workspace },
    }));
  });

  type Who = keyof typeof keys;
  const as = (who: Who) => ({ key: keys[who] });
  const fresh = (): string => `m${++threads}`;
  const setMode = (thread_id: string, mode: unknown, who: Who = "alice", fields: object = {}): Promise<Answer> =>
    server.post("/chat/mode", { thread_id, mode, ...fields }, as(who));
  const say = (...replies: Reply[]): void => mock.answer("scripted", inTurn(...replies));
  const asked = (manifest: string, thread: string | null, fields: object = {}) =>
    turn(manifest, "go", { model: "scripted", ...(thread !== null && { thread_id: thread }), ...fields });
  const ask = (manifest: string, thread: string | null, who: Who = "alice"): Promise<Answer> =>
    server.post("/chat", asked(manifest, thread), as(who));
  const stream = (manifest: string, thread: string | null, who: Who = "alice") =>
    server.stream("/chat/stream", asked(manifest, thread), as(who));
  const snapshot = async (thread: string, who: Who = "alice") =>
    (await server.get(`/chat/sessions/${thread}`, as(who))).json;
  const modeIn = async (thread: string, who: Who = "alice") => (await snapshot(thread, who)).permissionMode;
  const pending = (thread: string) =>
    eventually("a request", async () => {
      const { items } = (await server.get(`/approvals?thread_id=${thread}`, as("reader"))).json;
      return items[0] as { approval_id: string; args: Record<string, unknown>; [field: string]: unknown } | undefined;
    });
  const decide = (id: string, body: object, who: Who = "bob") => server.post(`/approvals/${id}/decide`, body, as(who));
  const results = (answer: Answer): string[] =>
    answer.json.messages
      .filter(({ role }: { role: string }) => role === "tool")
      .map(({ content }: { content: string }) => content);
  const outputs = (frames: readonly Frame[]): string[] =>
    frames.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);
  /** The audit rows of a thread, once there are this many. */
  const audited = (event: string, thread: string, count: number) =>
    eventually("audit rows", async () => {
      const { items } = (await server.get(`/audit?event_type=${event}`, as("admin"))).json;
      const own = items.filter((row: { payload: object }) => {
        return (row.payload as { thread_id: string }).thread_id === `acme:${thread}`;
      });
      return own.length >= count ? own : undefined;
    });
  const noRunIsLive = () =>
    eventually("runs that are put aside", async () => {
      const { text } = await server.get("/metrics", as("admin"));
      return /^svc_live_runs 0$/m.test(text) || undefined;
    });
  /** The tools of the model's newest request. */
  const offered = (): string[] => {
    const body = mock.requests.findLast(({ model }) => model === "scripted")?.body as
      | { tools?: { function: { name: string } }[] }
      | undefined;
    return body?.tools?.map((tool) => tool.function.name) ?? [];
  };
  const write = (path: string, content = "x") => ["write_file", { path, content }] as const;
  const plan = (text: string) => ["exit_plan_mode", { plan: text }] as const;
  const fileOf = (path: string): string => readFileSync(join(workspace, ".svc-scopes", "acme", "shared", path), "utf8");

  test("SESS-011 POST /chat/mode sets each mode, the snapshot has it, and bad ones are refused", async () => {
    const thread = fresh();
    for (const mode of modes) {
      const set = await setMode(thread, mode);
      assert.deepEqual([set.status, set.json], [200, { ok: true, thread_id: `acme:${thread}`, mode }]);
      assert.equal(await modeIn(thread), mode);
    }
    for (const mode of ["yolo", "", null, 1, undefined]) {
      const refused = await setMode(thread, mode);
      assert.deepEqual([refused.status, refused.json.error], [422, "invalid_request"], String(mode));
    }
    for (const id of ["a:b", "search", "50%"])
      assert.deepEqual((await setMode(id, "plan")).json.error, "invalid_thread_id", id);
    assert.equal((await setMode(thread, "plan", "alice", { more: 1 })).status, 422);
    assert.equal((await server.post("/chat/mode", { thread_id: thread, mode: "plan" })).status, 401);
    assert.equal(await modeIn(thread), "bypass");
  });

  test("SESS-011 bypass needs its scope and the manifest's permission, others only the latter", async () => {
    const thread = fresh();
    const bare = await setMode(thread, "bypass", "bob");
    say({ text: "Done." });
    await ask("plain", thread);
    const other = await setMode(thread, "bypass");
    const named = await setMode(thread, "bypass", "alice", { manifest: "agent" });
    const refusals = [
      await setMode(thread, "bypass", "bob", { manifest: "nobody" }),
      await setMode(thread, "default", "alice", { manifest: "stuck" }),
      await setMode(thread, "plan", "alice", { manifest: "nobody" }),
      await setMode(thread, "plan", "alice", { manifest: "closed" }),
      await setMode(thread, "plan", "alice", { manifest: " " }),
    ];

    assert.deepEqual(
      [bare, other, named].map(({ status, json }) => [status, json.error, json.detail]),
      [
        [403, undefined, "missing scopes: approvals:bypass"],
        [403, "mode_not_allowed", "mode_not_allowed"],
        [200, undefined, undefined],
      ],
    );
    assert.deepEqual(
      refusals.map(({ status, json }) => [status, json.detail]),
      [
        [403, "missing scopes: approvals:bypass"],
        [403, "mode_not_allowed"],
        [404, "unknown_manifest:nobody"],
        [403, "missing scopes: special"],
        [400, "manifest_required"],
      ],
    );
  });

  test("SESS-011 setting a mode creates a thread that is listed after its first message", async () => {
    const thread = fresh();
    const listed = async () => {
      const { text } = await server.get("/chat/sessions?limit=500", as("alice"));
      return text.includes(`"acme:${thread}"`);
    };
    const unset = await modeIn(thread);
    await setMode(thread, "plan");
    const before = await listed();
    say(calls(write("never.txt")), { text: "Done." });
    const told = await ask("agent", thread);

    assert.deepEqual([unset, before, await listed(), await modeIn(thread)], ["default", false, true, "plan"]);
    assert.match(results(told).join(), /^denied by approvals: plan mode/);
  });

  test("SESS-011 each mode runs each kind of tool, makes it wait or refuses it", async () => {
    const kinds = {
      reads: ["list_dir", { path: "." }],
      writes: ["todo_write", { todos: [{ content: "one" }] }],
      edits: ["write_file", { path: "table.txt", content: "x" }],
      gated: ["calculator", { expression: "1+1" }],
    } as const;
    const table: Record<PermissionMode, Record<keyof typeof kinds, string>> = {
      default: { reads: "runs", writes: "runs", edits: "waits", gated: "waits" },
      plan: { reads: "runs", writes: "denied", edits: "denied", gated: "waits" },
      accept_edits: { reads: "runs", writes: "runs", edits: "runs", gated: "waits" },
      bypass: { reads: "runs", writes: "runs", edits: "runs", gated: "runs" },
    };

    const found: Record<string, Record<string, string>> = {};
    for (const mode of modes) {
      found[mode] = {};
      for (const [kind, call] of Object.entries(kinds)) {
        const thread = fresh();
        await setMode(thread, mode);
        say(calls(call), { text: "Done." });
        const streamed = await stream("agent", thread);
        const frames: Frame[] = [];
        for await (const frame of streamed) {
          frames.push(frame);
          if (frame.name === "approval_required") await decide(frame.json.data.approval_id, { decision: "denied" });
        }
        const [output = ""] = outputs(frames);
        const waits = frames.some(({ name }) => name === "approval_required");
        found[mode][kind] = waits ? "waits" : output.startsWith("denied by") ? "denied" : "runs";
        assert.deepEqual(offered().includes("exit_plan_mode"), mode === "plan");
      }
    }

    assert.deepEqual(found, table);
  });

  test("GOV-017 accept_edits waives no rule that requires another person", async () => {
    const thread = fresh();
    assert.equal((await setMode(thread, "accept_edits", "alice", { manifest: "strict" })).status, 200);
    say(calls(write("strict.txt")), { text: "Done." });

    const answer = ask("strict", thread);
    const { approval_id } = await pending(thread);
    const own = await decide(approval_id, { decision: "approved" }, "alice");
    await decide(approval_id, { decision: "denied" }, "bob");

    assert.equal(own.status, 403, own.text);
    assert.match(results(await answer).join(), /^\[approval denied\]/);
  });

  test("SESS-011 a set mode, a waived approval and a refusal are audited and counted", async () => {
    const thread = fresh();
    await setMode(thread, "bypass");
    await setMode(thread, "bypass");
    say(calls(write("waived.txt")), { text: "Done." });
    await ask("agent", thread);
    await setMode(thread, "plan");
    await ask("agent", thread);

    const changes = await audited("permission_mode_change", thread, 2);
    const [waived] = await audited("approval_waived", thread, 1);
    const [denied] = await audited("policy_deny", thread, 1);
    assert.deepEqual(
      changes.map(({ status, principal_subj, payload }: Record<string, unknown>) => [status, principal_subj, payload]),
      [
        ["plan", "alice", { thread_id: `acme:${thread}`, mode: "plan", via: "route" }],
        ["bypass", "alice", { thread_id: `acme:${thread}`, mode: "bypass", via: "route" }],
      ],
    );
    const { request_id: _request, ...payload } = waived.payload;
    assert.deepEqual(
      [waived.status, waived.manifest_id, payload],
      ["bypass", "agent", { tool: "write_file", manifest_id: "agent", thread_id: `acme:${thread}` }],
    );
    assert.deepEqual(
      [denied.payload.control, denied.payload.layer, denied.payload.tool],
      ["approvals", "permission_mode", "write_file"],
    );
    const { text } = await server.get("/metrics", as("admin"));
    assert.match(text, /svc_approval_waived_total\{manifest_id="agent",mode="bypass"\} \d+/);
  });

  test("SESS-011 each run checks manifest and caller anew, and else uses the manifest's default", async () => {
    const thread = fresh();
    await setMode(thread, "bypass");
    const waits: string[] = [];
    for (const [manifest, who] of [
      ["agent", "alice"],
      ["agent", "bob"],
      ["plain", "alice"],
    ] as const) {
      say(calls(write(`${manifest}-${who}.txt`)), { text: "Done." });
      const answer = ask(manifest, thread, who);
      if (waits.length > 0) await decide((await pending(thread)).approval_id, { decision: "denied" });
      waits.push(results(await answer).at(-1) ?? "");
    }
    say(calls(write("planner.txt")), { text: "Done." });
    const strict = await ask("planner", thread);

    assert.deepEqual(waits, [
      "wrote agent-alice.txt (1 bytes)",
      "[approval denied] tool=write_file rule=gate",
      "[approval denied] tool=write_file rule=gate",
    ]);
    assert.match(results(strict).at(-1) ?? "", /^denied by approvals: plan mode/);
    assert.equal(await modeIn(thread), "bypass");
  });

  test("SESS-011 a manifest's default is the mode of a new conversation, and a fork's", async () => {
    const [thread, copy] = [fresh(), fresh()];
    say(calls(write("new.txt")), { text: "Done." });
    const told = await ask("planner", thread);
    const begun = await modeIn(thread);
    await setMode(thread, "accept_edits");
    const forked = await server.post("/chat/fork", { thread_id: thread, new_thread_id: copy }, as("alice"));
    const stateless = await ask("planner", null);

    for (const answer of [told, stateless]) assert.match(results(answer).join(), /^denied by approvals: plan mode/);
    assert.deepEqual(
      [begun, await modeIn(thread), forked.status, await modeIn(copy)],
      ["plan", "accept_edits", 200, "default"],
    );
  });

  test("STREAM-041 an approved plan ends plan mode in frame, log, snapshot and audit", async () => {
    const thread = fresh();
    await setMode(thread, "plan");
    const listener = await server.listen(`/chat/stream/${thread}`, as("alice"));
    await listener.until("snapshot");
    say(
      calls(write("early.txt")),
      calls(plan("1. Write plan.txt"), ["todo_write", { todos: [] }]),
      calls(["todo_write", { todos: [{ content: "one" }] }]),
      calls(plan("again")),
      { text: "Done." },
    );

    const streamed = await stream("plain", thread);
    const { json } = await streamed.until("approval_required");
    const row = await pending(thread);
    const parked = await modeIn(thread);
    const decided = await decide(row.approval_id, {
      decision: "approved",
      edited_args: { plan: "1. Write other.txt" },
    });
    const frames = await streamed.rest();
    const heard = await listener.until("permission_mode_changed");
    listener.close();

    assert.deepEqual([decided.status, parked, await modeIn(thread)], [200, "plan", "default"]);
    assert.deepEqual(
      [json.data.rule_id, json.data.tool_name, json.data.args, row.ttl_seconds],
      ["plan-approval", "exit_plan_mode", { plan: "1. Write plan.txt" }, 1800],
    );
    const changed = frames.filter(({ name }) => name === "permission_mode_changed");
    assert.deepEqual(
      [...changed.map((frame) => frame.json.data), heard.json.data],
      [{ mode: "default" }, { mode: "default" }],
    );
    const names = frames.map(({ name }) => name);
    assert.ok(names.indexOf("tool_end") < names.indexOf("permission_mode_changed"));
    assert.deepEqual(outputs(frames), [
      '[run with arguments that a person has edited: {"plan":"1. Write other.txt"}]\n' +
        "the plan is approved and plan mode is over: carry it out\n\n1. Write other.txt",
      "the list has 0 items, 0 of them completed",
      "the list has 1 items, 0 of them completed",
      "denied by approvals: the conversation is not in plan mode",
    ]);
    assert.ok(offered().includes("exit_plan_mode"));
    const [change] = await audited("permission_mode_change", thread, 2);
    assert.deepEqual(
      [change.status, change.payload.mode, change.payload.via, change.manifest_id],
      ["default", "default", "exit_plan_mode", "plain"],
    );
    say({ text: "Done." });
    await ask("plain", thread);
    assert.ok(!offered().includes("exit_plan_mode"));
  });

  test("STREAM-041 a refused plan keeps the mode, and each plan of each conversation is asked anew", async () => {
    const [one, two] = [fresh(), fresh()];
    for (const thread of [one, two]) await setMode(thread, "plan");
    say(calls(plan("the same")), calls(write("denied.txt")), { text: "Done." });
    const first = ask("plain", one);
    const refused = await pending(one);
    const second = ask("plain", two);
    const other = await pending(two);
    await decide(refused.approval_id, { decision: "denied", note: "too long" });
    const told = await first;
    await server.post("/chat/abort", { thread_id: two }, as("alice"));
    await second;

    assert.notEqual(refused.approval_id, other.approval_id);
    assert.deepEqual(results(told), [
      "[approval too long] tool=exit_plan_mode rule=plan-approval",
      "denied by approvals: plan mode runs no write_file, only tools that read",
    ]);
    assert.deepEqual([await modeIn(one), await modeIn(two)], ["plan", "plan"]);
  });

  test("STREAM-041 a stateless turn leaves plan mode for itself, and parallel plans end it once", async () => {
    say(calls(plan("alone")), calls(write("stateless.txt")), { text: "Done." });
    const streamed = await stream("planner", null);
    const { json } = await streamed.until("approval_required");
    await decide(json.data.approval_id, { decision: "approved" });
    const alone = await streamed.rest();

    const thread = fresh();
    await setMode(thread, "plan");
    say(calls(plan("a"), plan("b")), { text: "Done." });
    const both = await stream("sequel", thread);
    const ids = [await both.until("approval_required"), await both.until("approval_required")].map(
      (frame) => frame.json.data.approval_id,
    );
    for (const id of ids) await decide(id, { decision: "approved" });
    const frames = await both.rest();

    assert.equal(fileOf("stateless.txt"), "x");
    assert.equal(alone.filter(({ name }) => name === "permission_mode_changed").length, 1);
    assert.equal(frames.filter(({ name }) => name === "permission_mode_changed").length, 1);
    assert.equal(outputs(frames).filter((text) => text.startsWith("the plan is approved")).length, 2);
  });

  test("STREAM-041 a manifest that allows only planning has no way out of it", async () => {
    const thread = fresh();
    say(calls(plan("out")), { text: "Done." });
    const told = await ask("stuck", thread);

    assert.deepEqual(results(told), ["[tool error/permission_denied] no tool of this name is bound"]);
    assert.ok(!offered().includes("exit_plan_mode"));
    const named = { manifest: { metadata: { name: "named" }, spec: { tools: ["exit_plan_mode"] } } };
    const refused = await server.request("PUT", "/manifests/named", { ...as("admin"), body: named });
    assert.match(refused.text, /names the tool exit_plan_mode, which does not exist/);
  });

  test("SESS-011 a run keeps the mode that it started with", async () => {
    const thread = fresh();
    const more = gate();
    mock.answer("slow", says("So far", more.opened));
    say(calls(write("meanwhile.txt")), { text: "Done." });
    await setMode(thread, "plan");
    const slow = await server.stream("/chat/stream", asked("plain", thread, { model: "slow" }), as("alice"));
    await slow.until("text_delta");
    const set = await Promise.all(modes.slice(0, 3).map((mode) => setMode(thread, mode, "bob", { manifest: "agent" })));
    const during = await modeIn(thread);
    more.open();
    await slow.rest();
    const told = await ask("plain", thread);

    assert.deepEqual(
      set.map(({ status }) => status),
      [200, 200, 200],
    );
    assert.equal(during, "accept_edits");
    assert.deepEqual(results(told), ["wrote meanwhile.txt (1 bytes)"]);
  });

  test("SESS-011 a run that waits in plan mode stays in it until its plan is approved", async () => {
    const thread = fresh();
    await setMode(thread, "plan");
    say(calls(plan("first")), calls(write("waited.txt")), calls(plan("second")), calls(write("then.txt")), {
      text: "Done.",
    });
    const answer = ask("agent", thread);
    const row = await pending(thread);
    await setMode(thread, "bypass");
    await decide(row.approval_id, { decision: "denied" });
    const again = await eventually("another request", async () => {
      const next = await pending(thread);
      return next.approval_id === row.approval_id ? undefined : next;
    });
    await decide(again.approval_id, { decision: "approved" });
    // The run is in mode default now, so the edit waits; the approval has ended the mode that was set.
    const edit = await pending(thread);
    assert.equal((await decide(edit.approval_id, { decision: "denied" })).status, 200);

    assert.deepEqual(results(await answer), [
      "[approval denied] tool=exit_plan_mode rule=plan-approval",
      "denied by approvals: plan mode runs no write_file, only tools that read",
      "the plan is approved and plan mode is over: carry it out\n\nsecond",
      "[approval denied] tool=write_file rule=gate",
    ]);
    assert.equal(await modeIn(thread), "default");
  });

  test("SESS-011 another tenant's thread of the same name is neither shown nor changed", async () => {
    const thread = fresh();
    await setMode(thread, "plan");
    await setMode(thread, "bypass", "stranger");

    assert.deepEqual([await modeIn(thread), await modeIn(thread, "stranger")], ["plan", "bypass"]);
    const rows = await eventually("an audit row", async () => {
      const { items } = (await server.get("/audit?event_type=permission_mode_change", as("stranger"))).json;
      return items.length > 0 ? items : undefined;
    });
    assert.deepEqual(
      rows.map(({ payload }: { payload: object }) => payload),
      [{ thread_id: `globex:${thread}`, mode: "bypass", via: "route" }],
    );
  });

  test("SESS-011 STREAM-041 mode and plan survive a SIGKILL, and the run continues in the new mode", async () => {
    const [thread, kept] = [fresh(), fresh()];
    await setMode(thread, "plan");
    await setMode(kept, "accept_edits");
    say(calls(plan("survives")), { text: "Never." });
    const cut = ask("agent", thread).catch(() => null);
    const { approval_id: id } = await pending(thread);
    await noRunIsLive();
    await server.kill();
    await cut;
    await server.restart();

    assert.deepEqual([await modeIn(thread), await modeIn(kept)], ["plan", "accept_edits"]);
    say({ text: "Never." }, calls(["todo_write", { todos: [] }]), calls(write("gated.txt")), calls(plan("again")), {
      text: "Done.",
    });
    const listener = await server.listen(`/chat/stream/${thread}`, as("alice"));
    await listener.until("snapshot");
    assert.equal((await decide(id, { decision: "approved" })).status, 200);
    const heard = await listener.until("permission_mode_changed");
    // The run suspends again, and resumes from its row, which holds the new mode.
    const edit = await pending(thread);
    await noRunIsLive();
    await server.kill();
    await server.restart();
    assert.equal((await decide(edit.approval_id, { decision: "approved" })).status, 200);
    const transcript = await eventually("the end", async () => {
      const { transcript: all } = await snapshot(thread);
      return all.at(-1)?.content === "Done." ? all : undefined;
    });

    assert.deepEqual(heard.json.data, { mode: "default" });
    const told = transcript.filter(({ kind }: { kind: string }) => kind === "tool_result");
    assert.deepEqual(
      told.map(({ content }: { content: string }) => content.split("\n")[0]),
      [
        "the plan is approved and plan mode is over: carry it out",
        "the list has 0 items, 0 of them completed",
        "wrote gated.txt (1 bytes)",
        "denied by approvals: the conversation is not in plan mode",
      ],
    );
    assert.equal(await modeIn(thread), "default");
  });
});
