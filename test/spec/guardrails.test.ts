// Guardrails: personal data in what callers say, in calls and results of tools, and in text of the model, and judges of calls and replies.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { parseProblems, agent as spec } from "../manifests/support.ts";
import { calls, inTurn, says, shown, startChat, turn, wordsOf } from "../support/chat.ts";
import { eventually } from "../support/eventually.ts";
import { jsonScript } from "../support/mock-model/answer.ts";
import { type Behaviour, failure } from "../support/mock-model/behaviours.ts";
import type { MockModel } from "../support/mock-model.ts";
import { apiKeys, type TestServer } from "../support/server.ts";
import { cleanup, tempDir } from "../support/temp.ts";

const models = ["model", "judge"] as const;
const { env, keys } = apiKeys({
  one: { tenant_id: "one", scopes: ["*"] },
  two: { tenant_id: "two", scopes: ["*"] },
});
const as = { key: keys.one };
const address = "ann@example.com";
const card = "4111 1111 1111 1111";
const secret = /ann@example|4111/;
const tools = ["write_file", "read_file", "calculator"];
const pii = (more: object = {}) => ({ providers: ["pii"], ...more });

interface Event {
  readonly event_type: string;
  readonly status: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

describe("guardrails", () => {
  const atEnd = cleanup();
  let server: TestServer;
  let mock: MockModel;
  before(async () => {
    const guarded = (guardrails: object, more: object = {}) => ({ tools, guardrails, ...more });
    const judge = (more: object) =>
      guarded({ judges: [{ name: "tone", criteria: "Be kind.", model: "judge", ...more }] });
    ({ server, mock } = await startChat(atEnd, {
      models,
      providers: { workers_ai: { api_key: "cf-key" } },
      manifests: {
        free: { tools },
        usual: guarded(pii()),
        gated: guarded(pii(), { approvals: [{ id: "gate", tools: ["write_file"], ttl_seconds: 0.3 }] }),
        "in-block": guarded(pii({ targets: ["input"], block_on_match: true })),
        "out-block": guarded(pii({ targets: ["output"], block_on_match: true })),
        reply: guarded(pii({ targets: ["final_response"] })),
        "reply-block": guarded(pii({ targets: ["final_response"], block_on_match: true })),
        "judged-calls": judge({ target_tools: ["calc*"] }),
        "judged-all": judge({}),
        "judged-reply": judge({ final_response: true }),
        "decided-reply": guarded(
          { judges: [{ name: "tone", criteria: "Be kind.", model: "judge", final_response: true, decider: true }] },
          { decider: { id: "clef" } },
        ),
        "poor-judge": guarded(
          { judges: [{ name: "tone", criteria: "Be kind.", model: "judge" }] },
          { limits: { max_cost_usd: 0.0005 } },
        ),
      },
      env: { ...env, SVC_WORKSPACE_ROOT: tempDir(atEnd) },
    }));
  });

  let threads = 0;
  const newThread = () => `thread-${threads++}`;
  const audited = (thread: string, type: string): Promise<Event> =>
    eventually(`the audit row ${type}`, async () => {
      const { json } = await server.get(`/audit?event_type=${type}&limit=200`, as);
      const own = (json.items as Event[]).find(({ payload }) => payload.thread_id === `one:${thread}`);
      return own;
    });
  const counted = async (name: string, labels: string): Promise<void> => {
    await eventually(`${name}{${labels}}`, async () => {
      const { text } = await server.get("/metrics", as);
      return text.split("\n").some((line) => line.startsWith(name) && line.includes(labels));
    });
  };
  const play = async (manifest: string, text = "go", thread = newThread()) => {
    const stream = await server.stream("/chat/stream", turn(manifest, text, { thread_id: thread }), as);
    const frames = await stream.rest();
    const { text: history } = await server.get(`/chat/history/${thread}`, as);
    const done = frames.find(({ name }) => name === "done")?.json.data;
    return { thread, frames, history, said: wordsOf(frames), final: done?.final?.content, all: JSON.stringify(frames) };
  };
  const scored = (score: number): Behaviour => ({ text: JSON.stringify({ score }) });
  const judged = () => mock.requests.filter(({ model }) => model === "judge").length;

  test("GOV-011 spec.guardrails.providers takes pii only", () => {
    const problems = (providers: string[]) => parseProblems(spec({ guardrails: { providers } }));

    assert.deepEqual(problems(["pii"]), []);
    assert.deepEqual(problems(["presidio"]), ["enum spec.guardrails.providers.0"]);
    const blocking = parseProblems(spec({ guardrails: { block_on_match: true } }));
    assert.deepEqual(blocking, ["conflict spec.guardrails.block_on_match"]);
  });

  test("GOV-012 personal data of a caller is redacted for the model, the log and the audit", async () => {
    mock.answer("model", { text: "Noted." });

    const { thread, history } = await play("usual", `I am ${address}, card ${card}.`);

    assert.equal(shown(mock.requests.at(-1)).at(-1)?.content, "I am <EMAIL>, card <CREDIT_CARD>.");
    assert.match(history, /I am <EMAIL>/);
    assert.doesNotMatch(history, secret);
    const { status, payload } = await audited(thread, "inbound_screening");
    assert.deepEqual([status, payload.surface, payload.rule], ["redacted", "turn", "CREDIT_CARD,EMAIL"]);
    assert.equal((await audited(thread, "user_input")).payload.user_input, "I am <EMAIL>, card <CREDIT_CARD>.");
  });

  test("GOV-012 a caller's message with personal data is refused by block_on_match", async () => {
    const before = mock.requests.length;

    const { status, json } = await server.post("/chat", turn("in-block", `I am ${address}`), as);

    assert.deepEqual([status, json.detail], [422, "content_screening_denied"]);
    assert.equal(mock.requests.length, before);
  });

  test("GOV-011 arguments are never changed: redact shows them redacted, block denies the call", async () => {
    const write = ["write_file", { path: "a.txt", content: `to ${address}` }] as const;
    mock.answer("model", inTurn(calls(write), calls(["read_file", { path: "a.txt" }]), { text: "Done." }));

    const redacted = await play("usual");
    const free = await play("free", "go", redacted.thread);
    const blocked = await play("in-block");

    const start = redacted.frames.find(({ name }) => name === "tool_start");
    assert.deepEqual(start?.json.data.input, { path: "a.txt", content: "to <EMAIL>" });
    const ends = (frames: typeof free.frames) =>
      frames.flatMap(({ name, json }) => (name === "tool_end" ? [json.data.output as string] : []));
    assert.match(ends(free.frames)[1] ?? "", /ann@example\.com/, "the file has the address");
    assert.match(ends(redacted.frames)[1] ?? "", /to <EMAIL>/, "the result is redacted");
    assert.equal(ends(blocked.frames)[0], "denied by guardrails: contains personal data: EMAIL");
    const { payload } = await audited(blocked.thread, "policy_deny");
    assert.deepEqual([payload.control, payload.layer, payload.tool], ["guardrails", "guardrails", "write_file"]);
  });

  test("GOV-012 approval frames and the audit have redacted arguments, requests those of the call", async () => {
    const write = ["write_file", { path: "c.txt", content: `to ${address}` }] as const;
    mock.answer("model", inTurn(calls(write), { text: "Done." }));

    const { frames, thread } = await play("gated");
    const made = await play("usual");

    const asked = frames.find(({ name }) => name === "approval_required");
    assert.equal(asked?.json.data.args.content, "to <EMAIL>");
    const { json } = await server.get(`/approvals?status=expired&thread_id=one:${thread}`, as);
    assert.equal(json.items[0]?.args.content, `to ${address}`);
    const call = await audited(made.thread, "tool_call");
    assert.deepEqual(call.payload.args, { path: "c.txt", content: "to <EMAIL>" });
  });

  test("GOV-012 a result with personal data is refused by block_on_match", async () => {
    const write = ["write_file", { path: "b.txt", content: `to ${address}` }] as const;
    mock.answer("model", inTurn(calls(write), calls(["read_file", { path: "b.txt" }]), { text: "Done." }));

    const { frames } = await play("out-block");

    const last = frames.findLast(({ name }) => name === "tool_end");
    assert.equal(last?.json.data.output, "denied by guardrails: contains personal data: EMAIL");
    assert.doesNotMatch(JSON.stringify(shown(mock.requests.at(-1)).at(-1)), secret);
  });

  test("GOV-012 the reply is redacted as it streams, in frames, log, thinking and done", async () => {
    mock.answer("model", {
      reasoning: ["The address is ann@exa", "mple.com."],
      text: ["Write", " to ann@", "example.com", ", or pay with 4111 11", "11 1111 1111."],
    });

    const { thread, said, final, history, all } = await play("reply");

    const told = "Write to <EMAIL>, or pay with <CREDIT_CARD>.";
    assert.deepEqual([said, final], [told, told]);
    assert.match(history, /Write to <EMAIL>/);
    assert.doesNotMatch(all + history, secret);
    assert.ok(all.includes('"delta":"Write to "'), "the first words did not wait for the rest");
    const { status, payload } = await audited(thread, "guardrails_reply");
    assert.deepEqual([status, payload.engine], ["redacted", "pii"]);
  });

  for (const [surface, path, body] of [
    ["POST /chat", "/chat", {}],
    ["POST /v1/chat/completions", "/v1/chat/completions", { stream: false }],
    ["a stream of /v1", "/v1/chat/completions", { stream: true }],
    ["POST /v1/responses", "/v1/responses", { input: "go" }],
  ] as const)
    test(`GOV-012 the reply is redacted over ${surface}`, async () => {
      mock.answer("model", { text: ["Write to ann@", "example.com", "."] });
      const messages = [{ role: "user", content: "go" }];
      const asked =
        "input" in body ? { model: "reply", ...body } : { manifest: "reply", model: "reply", messages, ...body };
      const { model: _, ...native } = asked as Record<string, unknown>;

      const { status, text } = await server.post(path, path === "/chat" ? native : asked, as);

      assert.equal(status, 200, text);
      assert.match(text, /<EMAIL>|u003cEMAIL/);
      assert.doesNotMatch(text, secret);
    });

  test("GOV-011 block_on_match withholds the whole reply, which is sent once", async () => {
    mock.answer("model", { text: ["Hello. ", "Write to ann@", "example.com."] });

    const { thread, said, history, all } = await play("reply-block");

    assert.equal(said, "[blocked by guardrails]");
    assert.doesNotMatch(all + history, /Hello|ann@/);
    assert.equal((await audited(thread, "guardrails_reply")).status, "blocked");
    mock.answer("model", { text: "Nothing personal." });
    assert.equal((await play("reply-block")).said, "Nothing personal.");
  });

  test("AUDIT-020 guardrails_reply records a reply with personal data and nothing else", async () => {
    mock.answer("model", { text: `Write to ${address}.` });
    const redacted = await play("reply");
    const blocked = await play("reply-block");
    const rows = [
      await audited(redacted.thread, "guardrails_reply"),
      await audited(blocked.thread, "guardrails_reply"),
    ];

    assert.deepEqual(
      rows.map(({ status, payload }) => [status, payload.engine, payload.found ?? null]),
      [
        ["redacted", "pii", { EMAIL: 1 }],
        ["blocked", "pii", { EMAIL: 1 }],
      ],
    );
    assert.doesNotMatch(JSON.stringify(rows), secret);
  });

  test("GOV-012 an aborted reply holds released text only", async () => {
    const thread = newThread();
    mock.answer("model", says("Write to 4111 1111 1111 11", new Promise(() => {})));
    const stream = await server.stream("/chat/stream", turn("reply", "go", { thread_id: thread }), as);
    await stream.until("text_delta");

    const aborted = await server.post("/chat/abort", { thread_id: thread }, as);
    await stream.rest();

    assert.equal(aborted.status, 200);
    const { text } = await server.get(`/chat/history/${thread}`, as);
    assert.match(text, /Write to /);
    assert.doesNotMatch(text + stream.text, /4111/);
  });

  test("GOV-013 a judge below its threshold denies calls of its tools, and others pass", async () => {
    mock.answer("model", inTurn(calls(["calculator", { expression: "6*7" }]), { text: "Done." }));
    mock.answer("judge", scored(0.2));

    const { thread, frames } = await play("judged-calls");

    const end = frames.find(({ name }) => name === "tool_end");
    assert.equal(end?.json.data.output, "denied by guardrails: judge tone scored 0.2, below 0.7");
    const { payload } = await audited(thread, "policy_deny");
    assert.deepEqual([payload.control, payload.layer, payload.tool], ["guardrails", "judges", "calculator"]);
    mock.answer("judge", scored(0.9));
    assert.equal((await play("judged-calls")).frames.find(({ name }) => name === "tool_end")?.json.data.output, "42");
    const before = judged();
    mock.answer("model", inTurn(calls(["write_file", { path: "c.txt", content: "x" }]), { text: "Done." }));
    await play("judged-calls");
    assert.equal(judged(), before, "its tools do not include write_file");
  });

  test("AUDIT-021 a final_response judge withholds the reply and is audited with its score", async () => {
    mock.answer("model", { reasoning: ["They deserve it."], text: ["You ", "fool."] });
    mock.answer("judge", scored(0.3));

    const { thread, said, final, history, all } = await play("judged-reply");

    assert.deepEqual([said, final], ["[withheld: judge tone]", "[withheld: judge tone]"]);
    assert.doesNotMatch(all + history, /fool|deserve/);
    const { status, payload } = await audited(thread, "judge_deny");
    assert.deepEqual([status, payload.judge, payload.score, payload.threshold], ["denied", "tone", 0.3, 0.7]);
  });

  test("GOV-013 a judge that fails passes replies and reads, refuses other calls, and is counted", async () => {
    for (const broken of [failure(500), { text: "I like it" }, { text: '{"score": 7}' }] as const) {
      mock.answer("judge", broken);
      mock.answer("model", { text: "Hello." });
      const reply = await play("judged-reply", JSON.stringify(broken).slice(0, 40));
      mock.answer(
        "model",
        inTurn(calls(["read_file", { path: "none" }], ["write_file", { path: "d", content: "" }]), { text: "!" }),
      );
      const { frames } = await play("judged-all");

      assert.equal(reply.said, "Hello.");
      const [read, write] = frames.flatMap(({ name, json }) => (name === "tool_end" ? [json.data.output] : []));
      assert.doesNotMatch(read, /denied/);
      assert.equal(write, "denied by guardrails: judge tone is unavailable");
    }
    await counted("svc_control_unavailable_total", 'control="judges"');
  });

  test("a side question whose answer a judge refuses is withheld", async () => {
    mock.answer("model", { text: "You fool." });
    mock.answer("judge", scored(0.9));
    const { thread } = await play("judged-reply", "side");
    mock.answer("judge", scored(0.1));
    mock.answer("model", { text: "You are a fool." });

    const { status, json } = await server.post("/chat/ask", { thread_id: thread, question: "What am I?" }, as);

    assert.deepEqual([status, json.status, json.answer], [200, "withheld", ""]);
  });

  test("GOV-014 a text over 8,000 characters skips the decider", async () => {
    const decided = () => mock.requests.filter(({ path }) => path.includes("clef")).length;
    const decision = { type: "choice", choice: "good", confidence: 1, probabilities: { good: 0.9, poor: 0.1 } };
    const answer = { answers: { decision }, usage: { input_tokens: 10, output_tokens: 0 } };
    mock.answer("@cf/cloudflare/clef", jsonScript(200, { result: answer, success: true, errors: [], messages: [] }));
    mock.answer("clef", jsonScript(200, { result: answer, success: true, errors: [], messages: [] }));
    mock.answer("judge", scored(0.1));
    const asked = () => mock.requests.length;

    mock.answer("model", { text: "x".repeat(8_000) });
    const [before, judges] = [asked(), judged()];
    const short = await play("decided-reply");
    const afterShort = [asked() - before, judged() - judges];
    mock.answer("model", { text: "x".repeat(8_001) });
    const long = await play("decided-reply");

    assert.deepEqual([short.said.length, afterShort], [8_000, [2, 0]], `decided ${decided()}`);
    assert.deepEqual([long.said, judged() - judges], ["[withheld: judge tone]", 1]);
  });

  test("GOV-013 a judge's calls count against the budget of the run and are billed as judge", async () => {
    const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 };
    mock.answer("model", inTurn({ ...calls(["write_file", { path: "e", content: "" }]), usage }, { text: "!", usage }));
    mock.answer("judge", {
      text: '{"score": 1}',
      usage: { prompt_tokens: 300, completion_tokens: 10, total_tokens: 310 },
    });

    const { all } = await play("poor-judge");

    assert.match(all, /run limit reached: max_cost_usd|judge tone is unavailable/);
    await eventually("a usage row of the judge", async () =>
      (await server.get("/usage?limit=200", as)).text.includes('"kind":"judge"'),
    );
  });
});
