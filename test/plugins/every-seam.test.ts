// A plugin that uses every extension point, in real servers: its parts work like built-in ones.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { migrateCommand } from "../../host/cli/migrate.ts";
import { migrations } from "../../storage/migrations/list.ts";
import { run } from "../host/cli/support.ts";
import { calls, inTurn, startChatProcess, turn, wordsOf } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import type { Reply } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { hasPostgresServer, needsServer, testDatabase } from "../support/postgres.ts";
import { apiKeys, type Env, type ProcessServer, startServerProcess } from "../support/server.ts";
import { cleanup } from "../support/temp.ts";

const plugin = "./test/support/notes-plugin.ts";
const planted = "planted-notes-key-9321";
const { env: keyed, keys } = apiKeys({
  writer: { scopes: ["notes:write", "chat:write", "audit:read"] },
  reader: { scopes: ["notes:read"] },
  flows: { tenant_id: "flows", scopes: ["workflows:write"] },
  other: { scopes: ["chat:write"] },
  reading: { tenant_id: "initech", scopes: ["notes:write", "chat:write", "approvals:write"] },
  posting: { tenant_id: "umbrella", scopes: ["notes:write", "notes:read", "metrics:read"] },
  waiting: { tenant_id: "hooli", scopes: ["chat:write"] },
  stranger: { tenant_id: "globex", scopes: ["notes:write", "chat:write", "audit:read"] },
});
const tools = ["add_note", "count_notes", "calculator"];

/** Settings under which the plugin is loaded, with a route to its provider. */
const loaded: Env = { ...keyed, SVC_PLUGINS: plugin, SVC_NOTES_KEY: planted };

describe("the parts of a plugin", () => {
  const atEnd = cleanup();
  let server: ProcessServer;
  let mock: MockModel;
  before(async () => {
    ({ server, mock } = await startChatProcess(atEnd, {
      models: ["scripted"],
      manifests: {
        agent: { tools },
        terse: { pattern: "signed" },
        archivist: { tools: ["add_note"], extensions: { notes: { archive: true } } },
        shelved: { extensions: { notes: { shelf: true } } },
        lasting: {
          tools: ["count_notes"],
          approvals: [{ id: "counts", tools: ["count_notes"] }],
          execution: { mode: "durable" },
          extensions: { notes: { archive: true } },
        },
        gated: {
          tools: ["count_notes"],
          approvals: [{ id: "gate", tools: ["count_notes"] }],
        },
        stranded: { extensions: { notes: { unreachable: true } } },
        misled: { extensions: { notes: { archive: "yes", cellar: true } } },
        parrots: { model: { id: "polly" } },
        misnamed: { pattern: "unsigned" },
        router: { pattern: "router", sub_agents: ["terse", "parrots"], decider: { id: "choosy" } },
      },
      routes: {
        polly: { provider: "parrot", model: "polly" },
        lengths: { provider: "parrot", model: "lengths", kind: "embedding" },
      },
      providers: { parrot: { timeout: 2 } },
      env: {
        ...loaded,
        SVC_DECISION_ROUTES: JSON.stringify({ choosy: { provider: "chooser", model: "any" } }),
        SVC_HTTP_THREADS: "2",
        SVC_ACTOR_THREADS: "2",
      },
    }));
  });

  /** One turn of `agent`, whose model gives these answers in turn. */
  async function talk(key: string, manifest: string, replies: readonly Reply[], thread: string) {
    let asked = 0;
    mock.answer("scripted", () => replies[asked++] as Reply);
    const stream = await server.stream("/chat/stream", turn(manifest, "Go on.", { thread_id: thread }), { key });
    return stream.rest();
  }

  const many = Array.from({ length: 8 });
  const bodies = async (key: string): Promise<string[]> =>
    (await server.get("/notes", { key })).json.items.map(({ body }: { body: string }) => body);

  test("a tool is offered with its schema, is called, and reaches rows and actor", async () => {
    const frames = await talk(
      keys.writer,
      "agent",
      [calls(["add_note", { body: "milk" }]), calls(["count_notes", {}]), { text: "Done." }],
      "tool",
    );

    const offered = mock.requests.at(-1)?.body.tools as { function: { name: string } }[];
    assert.deepEqual(
      offered.map(({ function: { name } }) => name),
      tools,
    );
    const outputs = frames.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);
    assert.deepEqual(outputs, ["noted: milk (seen)", "1"]);
    assert.deepEqual(await bodies(keys.writer), ["milk"]);
  });

  test("a route serves its caller's tenant, checks its scopes, and validates", async () => {
    const added = await server.post("/notes", { body: "tea" }, { key: keys.stranger });
    const seen = await bodies(keys.stranger);
    const anonymous = await server.get("/notes");
    const unscoped = await server.get("/notes", { key: keys.other });
    const reader = await server.post("/notes", { body: "x" }, { key: keys.reader });
    const invalid = await server.post("/notes", { body: "" }, { key: keys.writer });

    assert.deepEqual([added.status, seen], [201, ["tea"]]);
    const audited = await server.get("/audit?event_type=notes_kept", { key: keys.stranger });
    assert.deepEqual(
      audited.json.items.map(({ status, payload }: { status: string; payload: { body: string } }) => [
        status,
        payload.body,
      ]),
      [["ok", "tea"]],
    );
    assert.equal(anonymous.status, 401);
    assert.deepEqual([unscoped.status, unscoped.json.detail], [403, "missing scopes: notes:read"]);
    assert.deepEqual([reader.status, reader.json.detail], [403, "missing scopes: notes:write"]);
    assert.deepEqual([invalid.status, invalid.json.detail[0].loc], [422, ["body", "body"]]);
  });

  test("the reference describes its routes, under its name", async () => {
    const { json } = await server.get("/openapi.json", { key: keys.other });

    assert.deepEqual(Object.keys(json.paths["/notes"]), ["get", "post"]);
    assert.deepEqual(json.paths["/notes"].get.security[0], { bearer: ["notes:read"] });
    assert.deepEqual(json.paths["/notes"].post.tags, ["notes"]);
    const { description, content } = json.paths["/notes"].post.responses[409];
    assert.equal(description, "`notes_full`: The tenant has as many notes as it may keep.");
    assert.equal(content["application/json"].examples.notes_full.value.error, "notes_full");
    assert.deepEqual(
      json.tags.filter(({ name }: { name: string }) => name === "notes"),
      [
        {
          name: "notes",
          description:
            "Notes of a tenant.\n\nScopes:\n\n- `notes:read`: Read the notes of the tenant.\n- `notes:write`: Keep notes." +
            "\n\nAudit types:\n\n- `notes_kept`: A note was kept.\n- `notes_censored`: A note was refused as rude.",
        },
      ],
    );
  });

  test("its screens join those of the console, and its modules are served with the console's own", async () => {
    const { text: page } = await server.get("/console");
    const [base = ""] = /\/console\/\w+(?=\/console\/main\.js)/.exec(page) ?? [];
    const { imports } = JSON.parse(/<script type="importmap">(.*)<\/script>/.exec(page)?.[1] ?? "{}");

    const added = await server.get(`${base}/console/screens/added.js`);
    const screen = await server.get(`${base}/plugins/notes/notes.js`);

    const line = `  { ...{"name":"notes","title":"Notes","icon":"copy","route":"GET /notes"}, load: () => import("../../plugins/notes/notes.js") },`;
    assert.deepEqual(added.text.split("\n"), ["export const added = [", line, "];", ""]);
    assert.deepEqual([screen.status, screen.headers["content-type"]], [200, "text/javascript; charset=utf-8"]);
    for (const [, path = ""] of screen.text.matchAll(/from "svc\/console\/([^"]+)"/g))
      assert.equal((await server.get(imports["svc/console/"] + path)).status, 200, path);
  });

  test("an entry point starts runs whose frames and end the plugin reads", async () => {
    mock.answer("scripted", () => ({ text: "Three." }));
    const body = { manifest: "agent", question: "How many?", thread: "notes-acme" };
    const { json, status } = await server.post("/notes/ask", body, { key: keys.reader });
    const taken = await server.post("/chat", turn("agent", "Hi.", { thread_id: "notes-acme" }), { key: keys.other });
    const strange = await server.post("/notes/ask", { ...body, manifest: "absent" }, { key: keys.reader });

    assert.deepEqual([status, json.end], [200, { texts: ["Three."], error: null }]);
    assert.ok(json.names.includes("text_delta"), json.names.join(" "));
    assert.match(JSON.stringify(mock.requests.at(-1)?.body.messages), /A note of somebody else.*Notes are short/s);
    assert.deepEqual([taken.status, taken.json.error], [400, "invalid_thread_id"]);
    assert.deepEqual([strange.status, strange.json.error], [404, "unknown_manifest:absent"]);
  });

  test("a run in the background waits for an approval, and its questions get no answer", async () => {
    const asked = [calls(["count_notes", {}]), { text: "Done." }];
    mock.answer("scripted", () => asked.shift() as Reply);
    const body = { manifest: "gated", question: "Count.", thread: "notes-gate" };
    const { json } = await server.post("/notes/ask", body, { key: keys.reader });

    assert.equal(json.waiting_on.kind, "approval");
  });

  test("an entry point of form stream answers a caller as POST /chat/stream does", async () => {
    mock.answer("scripted", () => ({ text: "Talked." }));
    const stream = await server.stream("/notes/talk", { manifest: "agent", text: "Hi." }, { key: keys.reader });
    const frames = await stream.rest();

    const done = frames.find(({ name }) => name === "done");
    assert.deepEqual(done?.json.data.final, { role: "assistant", content: "Talked." });
  });

  test("a delivery is repeated until the plugin has sent it, and given up if it is dead", async () => {
    await server.post("/notes", { body: "post a card" }, { key: keys.posting });
    await server.post("/notes", { body: "post a dead card" }, { key: keys.posting });

    const posted = ["post a card", "post a dead card", "posted by posting after 1"];
    await eventually("posted", async () => {
      const { json } = await server.get("/notes", { key: keys.posting });
      const bodies = json.items.map(({ body }: { body: string }) => body);
      return JSON.stringify(bodies.sort()) === JSON.stringify(posted);
    });
    const { text } = await server.get("/metrics", { key: keys.posting });
    assert.match(text, /svc_webhook_delivery_total\{kind="notes",endpoint="notes",outcome="dead"\} 1/);
  });

  test("an actor is one instance per key, whichever thread asks it", async () => {
    await server.post("/notes", { body: "coffee" }, { key: keys.stranger });

    // Connections are spread over both http threads.
    const answers = await Promise.all(many.map(() => server.get("/notes", { key: keys.stranger })));

    assert.deepEqual(
      answers.map(({ json }) => json.added),
      many.map(() => 2),
    );
  });

  test("PAT-002 manifests may name a plugin's pattern; an unknown one is refused", async () => {
    const frames = await talk(keys.writer, "terse", [{ text: "Hello." }], "pattern");
    const misnamed = await server.post("/chat", turn("misnamed", "Hi."), { key: keys.writer });

    assert.equal(wordsOf(frames), "Hello. (signed)");
    const { json } = await server.get("/chat/history/pattern", { key: keys.writer });
    assert.equal(json.messages.at(-1).content, "Hello. (signed)");
    assert.deepEqual([misnamed.status, misnamed.json.error], [422, "invalid_manifest"]);
    assert.deepEqual(misnamed.json.detail, [
      {
        loc: ["spec", "pattern"],
        msg: "spec.pattern must be one of react, deep, reflect, plan_execute, router, parallel, groupchat, signed.",
        type: "enum",
      },
    ]);
  });

  test("SPEC-022 a model provider answers its routes, with its options", async () => {
    const { json } = await server.post("/chat", turn("parrots", "Pretty bird."), { key: keys.writer });

    assert.equal(json.final.content, "Pretty bird. Pretty bird.");
    assert.equal(json.model, "polly");
  });

  test("SPEC-022 a model provider embeds for its embedding routes", async () => {
    const asked = { model: "lengths", input: ["Pretty", "bird."] };
    const { json } = await server.post("/v1/embeddings", asked, { key: keys.writer });

    assert.deepEqual(
      json.data.map(({ embedding }: { embedding: readonly number[] }) => embedding),
      [
        [6, 2],
        [5, 2],
      ],
    );
    assert.equal(json.usage.prompt_tokens, 7);
  });

  test("SPEC-022 a decider chooses for its decision routes, and a failure falls back to the model", async () => {
    const { json } = await server.post("/chat", turn("router", "Ask parrots."), { key: keys.writer });
    mock.answer("scripted", () => ({ text: "Hi." }));
    const broken = await server.post("/chat", turn("router", "A broken choice."), { key: keys.writer });

    assert.equal(json.final.content, "Ask parrots. Ask parrots.");
    assert.equal(broken.json.final.content, "Hi. (signed)");
    const { text } = await server.get("/metrics", { key: keys.writer });
    assert.match(text, /^svc_decisions_total\{(?=.*decider="choosy")(?=.*outcome="ok").*\} 1$/m);
    assert.match(text, /^svc_decisions_total\{(?=.*decider="choosy")(?=.*outcome="error").*\} 1$/m);
  });

  test("WF-003 a kind of steps works for a workflow, over several calls and tries", async () => {
    const steps = (body: string) => [
      { id: "n", kind: "note", config: { prefix: "> " }, inputs: { body }, retry: { max: 1, backoff_seconds: 1 } },
    ];
    const as = { key: keys.flows };
    const run = async (body: string) => {
      const definition = { steps: steps(body), outputs: { note: "$steps.n.note" } };
      const path = `/workflows/${body}`;
      await server.request("PUT", path, { ...as, body: { name: body, definition } });
      const { json } = await server.request("POST", `${path}/runs`, { ...as, body: {} });
      return eventually("the end of the run", async () => {
        const found = (await server.get(`${path}/runs/${json.run_id}`, as)).json;
        return found.finished_at !== null && found;
      });
    };
    const { json } = await server.get("/workflows/-/kinds", as);
    const check = { definition: { steps: [{ id: "n", kind: "note", config: { prefix: 1 } }] } };
    const checked = await server.request("POST", "/workflows/-/check", { ...as, body: check });

    const good = await run("good");
    const bad = await run("bad");
    const unusable = await Promise.all(["endless", "huge", "absent"].map(run));

    for (const { error } of unusable) assert.match(error, /^step_failed: n: plugin_failed: .* cannot be used$/);
    assert.equal(json.items.at(-1).source, "plugin");
    assert.deepEqual(
      checked.json.problems.map(({ code }: { code: string }) => code),
      ["missing_input", "invalid_field"],
    );
    assert.deepEqual([good.status, good.outputs], ["succeeded", { note: "> good after 3, try 1" }], good.error);
    assert.deepEqual([bad.status, bad.outputs], ["succeeded", { note: "> bad after 3, try 2" }], bad.error);
  });

  test("a task runs periodically", async () => {
    for (const round of [1, 2]) {
      const { status } = await server.post("/notes", { body: "rubbish" }, { key: keys.stranger });
      assert.equal(status, 201, `round ${round}`);

      await eventually("no rubbish", async () =>
        (await bodies(keys.stranger)).includes("rubbish") ? undefined : true,
      );
    }
    assert.deepEqual(await bodies(keys.stranger), ["coffee", "tea"]);
    const { text } = await server.get("/metrics", { key: keys.writer });
    assert.match(text, /^svc_notes_swept_bucket\{le="10"\} [1-9]\d*$/m);
  });

  test("GOV-019 AUDIT-022 a hook denies a call before it is made, and the audit names it", async () => {
    const frames = await talk(
      keys.writer,
      "agent",
      [calls(["add_note", { body: `the key is ${planted}` }]), { text: "I may not." }],
      "hook",
    );

    const [ended] = frames.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);
    assert.equal(ended, "[hook denied] notes_guard");
    const denied = await eventually("the denial", async () => {
      const { json } = await server.get("/audit?event_type=policy_deny", { key: keys.writer });
      return json.items.find((row: { payload: { thread_id: string } }) => row.payload.thread_id === "acme:hook");
    });
    const { tool, control, hook, reason } = denied.payload;
    assert.deepEqual(
      [denied.status, tool, control, hook, reason],
      ["denied", "add_note", "hook", "notes_guard", "a note does not hold the key"],
    );
    assert.deepEqual(await bodies(keys.writer), ["milk"]);
  });

  test("a hook that throws gives no verdict: only reads pass", async () => {
    const frames = await talk(
      keys.writer,
      "agent",
      [calls(["add_note", { body: "broken" }], ["calculator", { expression: "broken" }]), { text: "Well." }],
      "broken",
    );

    const outputs = frames.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);
    assert.equal(outputs[0], "[hook denied] notes_guard");
    assert.match(outputs[1], /^\[tool error\/invalid_arguments\] invalid expression/);
    const { text } = await server.get("/metrics", { key: keys.writer });
    assert.match(text, /^svc_control_degraded_total\{control="hook",manifest_id="agent",reason="notes_guard"\} 1$/m);
    assert.ok(server.logs.some(({ msg, hook }) => msg === "a hook of a plugin failed" && hook === "notes_guard"));
  });

  test("runs of an agent share one open tool source, whose tools are offered and counted", async () => {
    const search = calls(["search_archive", { word: "milk" }]);
    const first = await talk(keys.writer, "archivist", [search, { text: "Nothing." }], "archive-1");
    await talk(keys.writer, "archivist", [{ text: "Hello." }], "archive-2");

    const names = first.map(({ name }) => name).filter((name) => name.startsWith("tool_"));
    assert.deepEqual(names, [
      "tool_start",
      "tool_execution_update",
      "tool_execution_update",
      "tool_end",
      "tool_execution_update",
    ]);
    const [, update] = first.filter(({ name }) => name === "tool_execution_update").map(({ json }) => json.data);
    assert.deepEqual(update.progress, { done: 1, total: 2, message: "searching" });
    const [ended] = first.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);
    assert.equal(ended, "nothing about milk, by agent and internet and operator");
    const offered = mock.requests.at(-1)?.body.tools as { function: { name: string; description: string } }[];
    assert.deepEqual(
      offered.map(({ function: { name } }) => name),
      ["add_note", "search_archive"],
    );
    const { text } = await server.get("/metrics", { key: keys.writer });
    assert.match(text, /^svc_tool_calls_total\{(?=.*manifest_id="archivist").*transport="remote".*\} 1$/m);
    const opened = Number(/^svc_notes_archives_total (\d+)$/m.exec(text)?.[1]);
    // Once on each thread that has run the agent.
    assert.ok(opened >= 1 && opened <= 2, text);
    const series = (le: string) =>
      new RegExp(`^svc_notes_archive_seconds_bucket\\{(?=.*le="${le}")(?=.*shelf="top").*\\} (\\d+)$`, "m").exec(
        text,
      )?.[1];
    assert.deepEqual([series("0.1"), series("0.25")], ["0", String(opened)]);
  });

  /** The names of the tools in the newest request to the model. */
  const offeredNow = () => {
    const { tools: offered = [] } = mock.requests.at(-1)?.body ?? {};
    return (offered as { function: { name: string } }[]).map(({ function: { name } }) => name);
  };

  test("a turn is accepted before its tool sources are open, and its model is asked afterwards", async () => {
    mock.answer("scripted", () => ({ text: "Hello." }));
    const before = mock.requests.length;
    const asked = turn("shelved", "Hi.", { thread_id: "shelf" });
    const stream = await server.stream("/chat/stream", asked, { key: keys.reading });
    const first = await stream.next();
    const history = await server.get("/chat/history/shelf", { key: keys.reading });
    const askedBefore = mock.requests.length - before;

    await server.post("/notes", { body: "open the shelf" }, { key: keys.reading });
    const frames = await stream.rest();

    assert.equal(first?.name, "session_progress");
    assert.deepEqual([history.json.messages[0].content, askedBefore], ["Hi.", 0]);
    assert.equal(wordsOf(frames), "Hello.");
    assert.deepEqual(offeredNow(), ["count_shelf"]);
  });

  test("a turn that is stopped while its tool sources open ends without asking its model", async () => {
    const before = mock.requests.length;
    const asked = turn("shelved", "Hi.", { thread_id: "stopped" });
    const stream = await server.stream("/chat/stream", asked, { key: keys.waiting });
    await stream.next();
    const { status } = await server.post("/chat/abort", { thread_id: "stopped" }, { key: keys.waiting });
    const frames = await stream.rest();

    assert.equal(status, 200);
    assert.equal(frames.at(-1)?.raw, "data: [DONE]\n\n");
    assert.deepEqual(
      mock.requests.slice(before).map(({ body }) => body.messages),
      [],
    );
  });

  test("a durable run that resumes after an approval opens its tool sources again", async () => {
    let asked = 0;
    const replies = [calls(["count_notes", {}]), { text: "One." }];
    mock.answer("scripted", () => replies[asked++] as Reply);
    const asking = turn("lasting", "Count.", { thread_id: "lasting" });
    const stream = await server.stream("/chat/stream", asking, { key: keys.reading });
    const approval = await eventually("the request", async () => {
      const { json } = await server.get("/approvals?status=pending", { key: keys.reading });
      return json.items[0];
    });

    const path = `/approvals/${approval.id}/decide`;
    const decided = await server.post(path, { decision: "approved" }, { key: keys.reading });
    assert.equal(decided.status, 200, decided.text);
    await eventually("the second call", async () => (asked === 2 ? true : undefined));
    stream.close();

    assert.deepEqual(offeredNow(), ["count_notes", "search_archive"]);
  });

  test("a source that cannot be opened is skipped, with a note to the model", async () => {
    const frames = await talk(keys.writer, "stranded", [{ text: "Alone." }], "stranded");

    assert.equal(wordsOf(frames), "Alone.");
    const [system] = (mock.requests.at(-1)?.body.messages ?? []) as { role: string; content: string }[];
    assert.match(system?.content ?? "", /Some tools are missing in this run: notes_unreachable is unavailable\.$/);
    const { text } = await server.get("/metrics", { key: keys.writer });
    assert.match(text, /^svc_tool_sources_missing_total\{source="notes_unreachable"\} 1$/m);
  });

  test("a context source adds to the prompt, and the call's record shows it", async () => {
    await talk(keys.writer, "archivist", [{ text: "Yes." }], "context");

    const messages = (mock.requests.at(-1)?.body.messages ?? []) as { role: string; content: string }[];
    assert.match(messages[0]?.content ?? "", /Notes are from people\.$/);
    assert.deepEqual(messages.at(-1), { role: "user", content: "The newest note: milk" });
  });

  test("an input control refuses a turn before anything runs, and replaces words", async () => {
    const before = mock.requests.length;
    const denied = await server.post("/chat", turn("agent", "The forbidden word."), { key: keys.writer });
    mock.answer("scripted", inTurn({ text: "Fine." }));
    const replaced = await server.post("/chat", turn("agent", "A softened word."), { key: keys.writer });

    assert.deepEqual([denied.status, denied.json.error], [422, "content_screening_denied:notes_words"]);
    assert.equal(replaced.status, 200);
    const asked = mock.requests
      .slice(before)
      .map(({ body }) => (body.messages as { content: string }[]).at(-1)?.content);
    assert.deepEqual(asked, ["A soft word."]);
  });

  test("a control asks the run's model; its denial has its own audit type and counter", async () => {
    const note = calls(["add_note", { body: "perhaps rude" }]);
    const frames = await talk(
      keys.stranger,
      "agent",
      [note, { text: '{"rude": true}' }, { text: "Sorry." }],
      "censored",
    );

    const [ended] = frames.filter(({ name }) => name === "tool_end").map(({ json }) => json.data.output);
    assert.equal(ended, "[censored]");
    const { text } = await server.get("/metrics", { key: keys.writer });
    assert.match(text, /^svc_notes_censored_total 1$/m);
    const row = await eventually("the denial", async () => {
      const { json } = await server.get("/audit?event_type=notes_censored", { key: keys.stranger });
      return json.items[0];
    });
    assert.deepEqual([row.status, row.payload.tool, row.payload.reason], ["denied", "add_note", "the note is rude"]);
  });

  test("a manifest's values for a plugin are checked by the plugin's schema", async () => {
    const { status, json } = await server.post("/chat", turn("misled", "Hi."), { key: keys.writer });

    assert.deepEqual([status, json.error], [422, "invalid_manifest"]);
    assert.deepEqual(
      json.detail.map(({ loc }: { loc: unknown }) => loc),
      [
        ["spec", "extensions", "notes"],
        ["spec", "extensions", "notes", "archive"],
      ],
    );
  });

  test("a plugin's imports do not load the server before the header limit is set", async () => {
    const { status } = await server.get("/health", { headers: { "x-long": "x".repeat(10_000) } });

    assert.equal(status, 200);
  });

  test("a plugin's setting applies, and its secret is masked like a built-in one", async () => {
    for (const body of ["two", "three"]) await server.post("/notes", { body }, { key: keys.writer });

    const full = await server.post("/notes", { body: "four" }, { key: keys.writer });

    const { error, message } = full.json;
    assert.deepEqual(
      [full.status, error, message],
      [409, "notes_full", "The tenant has as many notes as it may keep."],
    );
    assert.ok(!server.output.includes(planted));
  });
});

const noServer = (await hasPostgresServer()) ? false : needsServer;

test("its table is created by svc migrate on Postgres, which is behind without it", {
  skip: noServer,
}, async (t) => {
  const atEnd = cleanup(t);
  const { url } = await testDatabase(atEnd);
  const env = { ...loaded, SVC_DATABASE_URL: url };
  const without = await run(migrateCommand, ["--json"], { SVC_DATABASE_URL: url });
  const server = await startServerProcess({ atEnd, env: { ...env, SVC_ACTOR_THREADS: "1" } });

  const behind = await server.get("/ready");
  const migrated = await run(migrateCommand, ["--json"], env);
  const ready = await server.get("/ready");
  const added = await server.post("/notes", { body: "milk" }, { key: keys.writer });
  const listed = await server.get("/notes", { key: keys.reader });

  assert.equal(JSON.parse(without.stdout).to, migrations.at(-1)?.revision);
  assert.deepEqual([behind.status, ready.status], [503, 200]);
  assert.deepEqual(JSON.parse(migrated.stdout).applied, ["notes_0001"]);
  assert.deepEqual([added.status, listed.json.items.length], [201, 1]);
});

test("a server without the plugin runs on its data, which returns with the plugin", async (t) => {
  const atEnd = cleanup(t);
  const server = await startServerProcess({ atEnd, env: loaded });
  await server.post("/notes", { body: "milk" }, { key: keys.writer });

  await server.restart({ SVC_PLUGINS: "", SVC_NOTES_KEY: "" });
  const without = await server.get("/notes", { key: keys.reader });
  await server.restart({ SVC_PLUGINS: plugin });
  const again = await server.get("/notes", { key: keys.reader });

  assert.equal(without.status, 404);
  assert.deepEqual(
    again.json.items.map(({ body }: { body: string }) => body),
    ["milk"],
  );
});
