// Skills in a run: the catalog, its index, the tools, activation over compaction and fork, suggestions, and the read-only routes.
import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { calls, inTurn, shown, startChat, systemOf, turn } from "../support/chat.ts";
import { jsonScript } from "../support/mock-model/answer.ts";
import type { Behaviour } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { skillText } from "../support/skills.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const secret = "correct-horse-battery-staple-93";
const toolNames = ["list_skills", "activate_skill", "deactivate_skill", "read_skill_file"];

describe("skills in a run", () => {
  const atEnd = cleanup();
  const { env, keys } = apiKeys({
    ann: { scopes: ["chat:read", "chat:write", "skills:read", "audit:read", "metrics:read"] },
    chatter: { scopes: ["chat:write"] },
    librarian: { scopes: ["skills:read"] },
  });
  const as = { key: keys.ann };
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const folder = tempDir(atEnd);
    const put = (name: string, files: Readonly<Record<string, string>>) => {
      for (const [path, text] of Object.entries(files)) {
        mkdirSync(join(folder, name, path, ".."), { recursive: true });
        writeFileSync(join(folder, name, path), text);
      }
    };
    put("brewing-tea", {
      "SKILL.md": skillText("brewing-tea", "How to brew green tea with water of the right temperature.", {
        body: "# Tea\n\n1. Heat the water to 80 degrees.\n",
        more: `metadata:\n  origin: Kyoto\n  token: ${secret}\n`,
      }),
      "references/leaves.md": "Use two grams of leaves.",
    });
    put("for-people", {
      "SKILL.md": skillText("for-people", "Only people start it.", { more: "disable-model-invocation: true\n" }),
    });
    put("calculator-help", { "SKILL.md": skillText("calculator-help", "The operator's own help.") });
    put("broken", { "SKILL.md": "no front matter" });
    put("misnamed", { "SKILL.md": skillText("other-name", "It names another folder.") });
    symlinkSync("/etc", join(folder, "linked"));
    const tea = [{ name: "brewing-tea" }];
    ({ server, mock } = await startChat(atEnd, {
      models: ["scripted", "judge"],
      providers: { workers_ai: { api_key: "cf-key" } },
      manifests: {
        plain: { tools: ["calculator"] },
        tea: { skills: tea },
        only: {
          skills: [{ name: "brewing-tea", description: "Tea, as the manifest says." }],
          skills_declared_only: true,
        },
        gone: { skills: [{ name: "no-such" }, { name: "brewing-tea", version: "9.9.9" }], skills_declared_only: true },
        named: { tools: ["list_skills"] },
        small: { skills: tea, session: { strategy: "compacting", context_window_tokens: 1024 } },
        short: { skills: tea, session: { strategy: "windowed:2" } },
        suggesting: { skills: tea, skill_suggestion: { enabled: true }, decider: { id: "clef" } },
        invalid: { skills: [{ name: "Bad Name" }] },
      },
      env: {
        ...env,
        SVC_CHAT_SCOPES: "strict",
        SVC_SKILLS_DIR: folder,
        SVC_AUDIT_FLUSH_SECONDS: "0.05",
        SVC_SECRET_TEA: secret,
      },
    }));
  });

  const say = async (manifest: string, text: string, fields: object = {}) => {
    const { status, json, text: body } = await server.post("/chat", turn(manifest, text, fields), as);
    assert.equal(status, 200, body);
    return json;
  };
  const results = (json: { messages: { role: string; content: string }[] }) =>
    json.messages.filter(({ role }) => role === "tool").map(({ content }) => content);
  const skillsOf = async (manifest: string, thread = "") => {
    const { status, json, text } = await server.get(`/skills/${manifest}${thread && `?thread_id=${thread}`}`, as);
    assert.equal(status, 200, text);
    return json;
  };
  const toolsOf = (request: MockModel["requests"][number] | undefined) =>
    ((request?.body.tools ?? []) as { function: { name: string } }[]).map((tool) => tool.function.name);
  const activate = (name: string) => inTurn(calls(["activate_skill", { name }]), { text: "Done." });

  test("TOOL-013 the tools are bound with spec.skills, and not without; spec.tools may name one", async () => {
    mock.answer("scripted", { text: "Hello." });
    const seen: string[][] = [];
    for (const manifest of ["plain", "tea", "named"]) {
      await say(manifest, "hello");
      seen.push(toolsOf(mock.requests.at(-1)));
    }

    assert.deepEqual(seen, [["calculator"], toolNames, ["list_skills"]]);
  });

  test("SKILL-011 SPEC-044 the index has all skills, or the declared ones only; a plain agent has none", async () => {
    mock.answer("scripted", { text: "Hello." });
    await say("tea", "hello");
    const all = systemOf(mock.requests.at(-1)) ?? "";
    await say("only", "hello");
    const declared = systemOf(mock.requests.at(-1)) ?? "";
    await say("plain", "hello");
    const none = systemOf(mock.requests.at(-1));

    assert.match(
      all,
      /- brewing-tea: How to brew[\s\S]*- calculator-help: The operator's own help\.[\s\S]*- operating-svc: /,
    );
    assert.doesNotMatch(all, /for-people|broken|other-name|linked/);
    assert.match(declared, /- brewing-tea: Tea, as the manifest says\./);
    assert.doesNotMatch(declared, /calculator-help/);
    assert.equal(none, undefined);
  });

  test("SPEC-043 a declared skill that does not exist is named to the model", async () => {
    mock.answer("scripted", { text: "Hello." });

    await say("gone", "hello");

    assert.equal(systemOf(mock.requests.at(-1)), "Some skills are missing in this run: no-such, brewing-tea 9.9.9.");
  });

  test("TOOL-013 an agent lists, activates, reads a file of, and deactivates a skill", async () => {
    mock.answer(
      "scripted",
      inTurn(
        calls(["list_skills", {}], ["activate_skill", { name: "brewing-tea" }]),
        calls(["list_skills", {}], ["read_skill_file", { name: "brewing-tea", path: "references/leaves.md" }]),
        calls(
          ["read_skill_file", { name: "brewing-tea", path: "../../etc/passwd" }],
          ["deactivate_skill", { name: "brewing-tea" }],
        ),
        calls(["activate_skill", { name: "for-people" }], ["activate_skill", { name: "no-such" }]),
        { text: "Done." },
      ),
    );

    const [listed, active, again, file, outside, ended, forPeople, unknown] = results(await say("tea", "brew tea"));

    assert.match(listed ?? "", /^- brewing-tea: How to brew green tea/);
    assert.match(
      active ?? "",
      /^<skill name="brewing-tea" version="">\n# Tea\n\n1\. Heat the water to 80 degrees\.\n<\/skill>\n.*references\/leaves\.md$/,
    );
    assert.match(again ?? "", /^- brewing-tea \(active\): /);
    assert.equal(file, "Use two grams of leaves.");
    assert.match(outside ?? "", /^\[tool error\/not_found\] brewing-tea has no file/);
    assert.equal(ended, "The skill brewing-tea has ended. Its instructions no longer apply.");
    for (const text of [forPeople, unknown]) assert.match(text ?? "", /^\[tool error\/not_found\] unknown_skill: /);
  });

  test("SKILL-005 SKILL-006 SKILL-009 AUDIT-023 activations of known and unknown skills are listed, the newest first", async () => {
    mock.answer(
      "scripted",
      inTurn(calls(["activate_skill", { name: "brewing-tea" }]), calls(["activate_skill", { name: "nothing" }]), {
        text: "Done.",
      }),
    );
    await say("only", "brew", { thread_id: "audited" });
    const items = await audited("only", 2);

    const common = { action: "activate", thread_id: "acme:audited", tool_call_id: "call_1" };
    assert.deepEqual(
      items.map(({ ts: _ts, tool_call_id: _id, ...rest }) => ({ ...rest, tool_call_id: "call_1" })),
      [
        { skill: "nothing", ...common, status: "unknown_skill", library: "" },
        { skill: "brewing-tea", ...common, status: "ok", library: "" },
      ],
    );
    assert.ok((items[0]?.ts ?? 0) >= (items[1]?.ts ?? 0));
    const { json } = await server.get("/audit?event_type=skill_activation", as);
    assert.ok(json.items.length >= 2);
    assert.equal((await server.get("/skills/only/activations/recent?limit=201", as)).status, 422);
    assert.equal((await server.get("/skills/only/activations/recent?limit=1", as)).json.items.length, 1);
  });

  async function audited(
    manifest: string,
    count: number,
  ): Promise<{ ts: number; skill: string; tool_call_id: string }[]> {
    for (;;) {
      const { json } = await server.get(`/skills/${manifest}/activations/recent`, as);
      if (json.items.length >= count) return json.items;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  test("SKILL-001 SKILL-002 SKILL-007 AUTH-022 the list names the skills of a manifest with their facts", async () => {
    const tea = await skillsOf("tea");
    const only = await skillsOf("only");
    const plain = await skillsOf("plain");
    const forbidden = await server.get("/skills/tea", { key: keys.chatter });

    assert.deepEqual(Object.keys(tea), ["manifest", "declared_only", "items", "active"]);
    assert.deepEqual(tea.items[0], {
      ...{
        name: "brewing-tea",
        description: "How to brew green tea with water of the right temperature.",
        version: "",
      },
      ...{ active: false, has_body: true, model_invocable: true, declared: true, source: "store" },
    });
    const sources = Object.fromEntries(
      tea.items.map((item: { name: string; source: string }) => [item.name, item.source]),
    );
    assert.equal(sources["calculator-help"], "store", "the operator's directory wins over a skill of svc");
    assert.equal(sources["operating-svc"], "bundled");
    assert.equal(sources["for-people"], "store");
    assert.deepEqual([only.declared_only, only.items.length], [true, 1]);
    assert.equal(plain.items.length, tea.items.length);
    assert.equal(forbidden.status, 403);
  });

  test("SKILL-003 SKILL-004 SKILL-008 one skill is shown with its text, without secrets and paths", async () => {
    const { status, json, text } = await server.get("/skills/tea/brewing-tea", as);

    assert.equal(status, 200, text);
    const keysOf = [
      "name",
      "description",
      "version",
      "active",
      "model_invocable",
      "declared",
      "source",
      "filename",
      "body",
      "metadata",
    ];
    assert.deepEqual(Object.keys(json).toSorted(), keysOf.toSorted());
    assert.equal(json.filename, "SKILL.md");
    assert.match(json.body, /^# Tea/);
    assert.equal(json.metadata.origin, "Kyoto");
    assert.doesNotMatch(text, new RegExp(secret));
  });

  test("the active skills of a thread are for those alone who may read the thread", async () => {
    mock.answer("scripted", activate("brewing-tea"));
    await say("tea", "brew", { thread_id: "unread" });

    for (const path of ["/skills/tea", "/skills/tea/brewing-tea"]) {
      const open = await server.get(path, { key: keys.librarian });
      const refused = await server.get(`${path}?thread_id=unread`, { key: keys.librarian });
      const read = await server.get(`${path}?thread_id=unread`, as);

      assert.deepEqual([open.status, refused.status, read.status], [200, 403, 200]);
      assert.equal(refused.json.detail, "missing scopes: chat:read");
    }
  });

  test("SKILL-010 an unknown or invalid manifest, and a skill outside the catalog, are 404", async () => {
    for (const path of ["nothing", "invalid", "tea/nothing", "only/calculator-help", "nothing/activations/recent"]) {
      const { status, json } = await server.get(`/skills/${path}`, as);
      assert.deepEqual([path, status, json.error], [path, 404, "not_found"]);
    }
  });

  test("an active skill survives compaction, and its end does too", async () => {
    const isSummary = (body: unknown) => JSON.stringify(body).includes("You sum up");
    const unlessSummary =
      (next: Behaviour): Behaviour =>
      (request) =>
        isSummary(request.body) ? { text: "They brewed." } : typeof next === "function" ? next(request) : next;
    mock.answer("scripted", activate("brewing-tea"));
    await say("small", "brew", { thread_id: "compacted" });
    mock.answer("scripted", unlessSummary({ text: "Yes." }));
    for (const word of ["one", "two", "three"]) await say("small", `${word} `.repeat(200), { thread_id: "compacted" });
    const request = mock.requests.at(-1);
    const state = await skillsOf("small", "compacted");

    assert.ok(!shown(request).some(({ content }) => content.startsWith("<skill")), "the result is cut off");
    assert.match(systemOf(request) ?? "", /The skill brewing-tea is active\. Its instructions:\n\n# Tea/);
    assert.deepEqual(state.active, ["brewing-tea"]);
    assert.equal(state.items[0].active, true);

    const end = inTurn(calls(["deactivate_skill", { name: "brewing-tea" }]), { text: "Ended." });
    mock.answer("scripted", unlessSummary(end));
    await say("small", "stop", { thread_id: "compacted" });
    mock.answer("scripted", unlessSummary({ text: "Yes." }));
    await say("small", "go on", { thread_id: "compacted" });
    assert.doesNotMatch(systemOf(mock.requests.at(-1)) ?? "", /is active/);
  });

  test("a fork has the skills that are active in its branch", async () => {
    mock.answer("scripted", { text: "Hello." });
    await say("tea", "hello", { thread_id: "forked" });
    mock.answer("scripted", activate("brewing-tea"));
    await say("tea", "brew", { thread_id: "forked" });
    const { status, text } = await server.post("/chat/fork", { thread_id: "forked", new_thread_id: "copy" }, as);
    assert.equal(status, 200, text);

    assert.deepEqual((await skillsOf("tea", "forked")).active, ["brewing-tea"]);
    assert.deepEqual((await skillsOf("tea", "copy")).active, ["brewing-tea"]);
  });

  test("a window that has lost the activation shows the instructions again", async () => {
    mock.answer("scripted", activate("brewing-tea"));
    await say("short", "brew", { thread_id: "windowed" });
    mock.answer("scripted", { text: "Yes." });
    for (const word of ["one", "two", "three"]) await say("short", word, { thread_id: "windowed" });

    assert.match(systemOf(mock.requests.at(-1)) ?? "", /The skill brewing-tea is active/);
  });

  test("SPEC-061 SPEC-060 the decider suggests a skill that fits, above both thresholds", async () => {
    const decided = (choice: string, probabilities: object) =>
      jsonScript(200, {
        ...{ success: true, errors: [], messages: [] },
        result: {
          ...{ model: "m", answers: { decision: { type: "choice", choice, confidence: 0.4, probabilities } } },
          usage: { input_tokens: 10, output_tokens: 0 },
        },
      });
    const cases = [
      [decided("brewing-tea", { "brewing-tea": 0.4, no_skill: 0.5 }), true],
      [decided("brewing-tea", { "brewing-tea": 0.2, no_skill: 0.1 }), false],
      [decided("brewing-tea", { "brewing-tea": 0.31, no_skill: 0.8 }), false],
      [decided("no_skill", { "brewing-tea": 0.4, no_skill: 0.6 }), false],
      [jsonScript(500, {}), false],
    ] as const;
    mock.answer("scripted", { text: "Tea." });
    for (const [answer, isSuggested] of cases) {
      mock.answer("clef", answer);
      await say("suggesting", "How do I brew green tea?");
      const [last] = shown(mock.requests.at(-1)).toReversed();
      assert.equal(/The skill brewing-tea seems to fit/.test(last?.content ?? ""), isSuggested);
    }
    const asked = mock.requests.length;
    await say("suggesting", "zzz");
    assert.equal(mock.requests.length, asked + 1, "no skill shares a word, so the decider is not asked");
    const { text } = await server.get("/metrics", as);
    for (const outcome of ["suggested", "none", "error"])
      assert.match(text, new RegExp(`svc_skill_suggestion_total\\{.*outcome="${outcome}".*\\} [1-9]`));
  });
});
