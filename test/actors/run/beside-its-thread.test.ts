// A run and its thread are two actors: the effect of a refusal, loss or crash of one on the other.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import type { OpenedLog } from "../../../actors/log/messages.ts";
import { defineTool } from "../../../actors/tools/tool.ts";
import { threadAddress } from "../../../bus/address.ts";
import { Type } from "../../../bus/type.ts";
import { type LogEvent, readEvents } from "../../../storage/tables/events.ts";
import { threadBySuffix } from "../../../storage/tables/threads.ts";
import { ActorProcess, processSettings, tenantId } from "../../support/actor-process.ts";
import { outcomeOf } from "../../support/outcome.ts";
import { refusingStore } from "../../support/refusing-store.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "../../support/scripted-model.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import { FrameReader } from "../../support/sse-frames.ts";
import { cleanup } from "../../support/temp.ts";

/** The message in an event of a sub-agent. */
interface InnerMessage {
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly { readonly id: string }[];
}

describe("a run and its thread actor", () => {
  const atEnd = cleanup();
  let disk: SimDisk;
  let settings: ReturnType<typeof processSettings>;
  let started = 0;
  before(async () => {
    settings = processSettings(
      atEnd,
      {
        agent: {},
        calls: { tools: ["calculator"], execution: { tools: "parallel" } },
        asks: {
          tools: ["calculator", "ask_late"],
          execution: { tools: "parallel" },
          approvals: [{ id: "sums", tools: ["calculator"] }],
        },
        dies: {
          tools: ["calculator", "ask_late"],
          execution: { tools: "parallel", mode: "durable", resume_token_ttl_seconds: 30 },
          approvals: [{ id: "sums", tools: ["calculator"] }],
        },
        adder: {
          system_prompt: { inline: "sum" },
          tools: ["calculator"],
          approvals: [{ id: "sums", tools: ["calculator"] }],
        },
        late: { system_prompt: { inline: "late" }, tools: ["ask_late"] },
        "team-asks": { pattern: "parallel", sub_agents: ["adder", "late"] },
        gated: {
          tools: ["calculator", "tick"],
          execution: { tools: "parallel" },
          approvals: [{ id: "sums", tools: ["calculator"] }],
        },
        pulls: { tools: ["pull"], execution: { tools: "parallel" } },
      },
      { SVC_FIBER_MAX_ATTEMPTS: "1" },
    );
    disk = await SimDisk.open(atEnd);
  });

  type Answer = (earlier: number, messages: readonly ShownMessage[]) => ScriptedReply;
  function start(answer: Answer = () => ({ text: ["Said."] })) {
    const sim = new Sim(++started);
    const env = sim.env();
    const store = refusingStore(disk.store(sim, env));
    const model = new ScriptedModel(env, (messages, earlier) => answer(earlier, messages));
    let pulls = 0;
    const pull = defineTool({
      name: "pull",
      description: "Pulls out the disk for a moment.",
      parameters: Type.Object({}, { additionalProperties: false }),
      effect: "once",
      risk: "writes",
      execute() {
        if (pulls++ === 0) Object.assign(store, { refused: "events_insert", once: true });
        return { text: "pulled" };
      },
    });
    const ask_late = defineTool({
      name: "ask_late",
      description: "Asks a person when the store has just failed to answer.",
      parameters: Type.Object({}, { additionalProperties: false }),
      effect: "read",
      risk: "reads",
      async execute() {
        await new Promise<void>((resolve) => void env.timer(500, resolve));
        store.unread = "waits_open_nth";
        const may_answer = { scopes: [], principal: null, not_principal: null };
        return { wait: { kind: "question", subject: "And?", deadline: null, may_answer } };
      },
    });
    const tick = defineTool({
      name: "tick",
      description: "Takes a moment.",
      parameters: Type.Object({}, { additionalProperties: false }),
      effect: "read",
      risk: "reads",
      async execute() {
        await new Promise<void>((resolve) => void env.timer(500, resolve));
        return { text: "ticked" };
      },
    });
    const process = new ActorProcess({
      env,
      store,
      settings,
      model,
      tools: [pull, ask_late, tick],
      bootId: `boot-${started}`,
    });
    atEnd.after(() => process.close());
    const suffix = `thread-${started}`;
    const address = threadAddress(tenantId, suffix);
    const submit = (asked: object = {}) => process.submit({ manifest: "agent", thread_suffix: suffix, ...asked });
    const ask = async (run_id: string) => {
      const asked = {
        run_id,
        idempotency: null,
        needed: 10,
        withUser: false,
        lease: null,
        appends: null,
        compacts: false,
        granted: 65_536,
      };
      return outcomeOf(process.bus.ask(address, "open", asked) as Promise<OpenedLog>);
    };
    async function events(): Promise<LogEvent[]> {
      const tenant = store.tenant(tenantId);
      const head = await sim.until(threadBySuffix(tenant, suffix));
      return head ? sim.until(readEvents(tenant, head.thread_key, 0, 100)) : [];
    }
    async function logged(): Promise<string[]> {
      return (await events()).map(
        ({ kind, content, extra }) => `${kind}: ${content || (extra?.metadata?.reason ?? "")}`,
      );
    }
    return { sim, process, store, model, address, submit, ask, events, logged, pulls: () => pulls };
  }

  test("is closed after a defect before the thread's listeners, and the next one starts", async () => {
    let asked = 0;
    const { sim, process, address, submit, logged } = start(() => {
      if (asked++ === 0) throw new TypeError("a defect");
      return { text: ["Again."] };
    });
    const heard = new FrameReader();
    const told: string[] = [];
    process.bus.subscribe(address, (text) => {
      for (const { name, json } of heard.push(text)) if (name === "session_event") told.push(json.data.kind);
    });
    const first = submit();
    await sim.until(first.ended);
    const next = submit();
    await sim.until(next.ended);
    await sim.advance(100);

    assert.match(first.text, /internal error/);
    assert.deepEqual(await logged(), ["message: go", "audit: crash", "message: go", "message: Again."]);
    assert.deepEqual(told, ["message", "audit", "message", "message"]);
    assert.deepEqual(process.crashes, []);
    assert.equal(process.deps.liveRuns.size, 0);
  });

  test("ends when a result of one call fails to be written while another waits", async () => {
    const calls = ["a", "b"].map((id) => ({ id, name: "pull", arguments: "{}" }));
    const { sim, process, submit, logged, pulls } = start((earlier) =>
      earlier === 0 ? { calls } : { text: ["Said."] },
    );
    const turn = submit({ manifest: "pulls" });
    await sim.until(turn.ended);
    const next = submit();
    await sim.until(next.ended);

    assert.match(turn.text, /storage_unavailable/);
    assert.equal(pulls(), 1, "the other is not made any more");
    assert.ok(turn.text.endsWith("data: [DONE]\n\n"), "nothing is said behind the end");
    const log = await logged();
    assert.equal(log.filter((line) => line.includes("outcome unknown")).length, 2, log.join("\n"));
    assert.equal(log.at(-1), "message: Said.");
    assert.deepEqual(process.crashes, []);
  });

  test("whose end cannot be written is closed by its thread as soon as the store allows", async () => {
    const call = { id: "a", name: "pull", arguments: "{}" };
    const { sim, address, submit } = start(() => ({ calls: [call] }));
    await sim.until(submit({ manifest: "pulls" }).ended);
    const status = () =>
      disk.query(
        "SELECT r.status FROM runs r JOIN threads t ON t.thread_key = r.thread_key WHERE t.suffix = ?",
        address.key.slice(tenantId.length + 1),
      );
    const before = status();
    await sim.advance(2_000);

    assert.deepEqual([before, status()], [[{ status: "running" }], [{ status: "failed" }]]);
  });

  for (const [manifest, thread, status] of [
    ["asks", true, "failed"],
    ["asks", false, "failed"],
    ["dies", true, "dead"],
  ] as const)
    test(`that ends for a failed read leaves no open question: ${status}, ${thread ? "on a" : "without a"} thread`, async () => {
      const sum = { id: "sum", name: "calculator", arguments: `{"expression":"1+${started}"}` };
      const { sim, submit } = start(() => ({ calls: [sum, { id: "late", name: "ask_late", arguments: "{}" }] }));
      const turn = submit({ manifest, ...(!thread && { thread_suffix: null }) });
      await sim.until(turn.accepted);
      await sim.advance(5_000);

      const rows = (sql: string) => disk.query(sql, turn.runId).map((row) => Object.values(row).join(" "));
      assert.deepEqual(rows("SELECT status FROM runs WHERE run_id = ?"), [status]);
      assert.deepEqual(rows("SELECT kind FROM waits WHERE run_id = ? AND state <> 'closed'"), []);
      const asked = "SELECT status, tool_name FROM approvals WHERE instr(args, ?) > 0";
      assert.deepEqual(
        disk.query(asked, `1+${started - 1}`).map((row) => Object.values(row).join(" ")),
        ["denied calculator"],
      );
    });

  test("that ends for a failed read gives its sub-agents' waiting calls results", async () => {
    const sum = { id: "sum", name: "calculator", arguments: `{"expression":"1+${started}"}` };
    const { sim, submit, events } = start((_, [system]) => ({
      calls: [sum, { id: "late", name: "ask_late", arguments: "{}" }].filter(({ id }) =>
        system?.content.startsWith(id),
      ),
    }));
    const turn = submit({ manifest: "team-asks" });
    await sim.until(turn.accepted);
    await sim.advance(5_000);

    assert.deepEqual(disk.query("SELECT status FROM runs WHERE run_id = ?", turn.runId), [{ status: "failed" }]);
    const inner = (await events()).map(({ extra }) => (extra?.metadata?.inner ?? {}) as InnerMessage);
    const asked = inner.flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }) => id));
    const answered = inner.flatMap(({ tool_call_id = [] }) => tool_call_id);
    assert.equal(asked.length, 2);
    assert.deepEqual(answered.toSorted(), asked.toSorted());
  });

  test("leaves memory when it is over, and its thread still knows its end", async () => {
    const { sim, process, model, submit } = start();
    const turn = submit();
    await sim.until(turn.ended);
    await sim.advance(100);
    const inMemory = process.host.size;

    const again = await sim.until(submit({ run_id: turn.runId }).accepted);

    assert.deepEqual([inMemory, again], [1, { kind: "started" }]);
    assert.equal(model.requests.length, 1);
  });

  test("that is refused after opening the log leaves it to the next one", async () => {
    const { sim, submit, logged } = start();
    const refused = submit({ model: "nobody" });
    const waits = submit();

    assert.deepEqual(await sim.until(outcomeOf(refused.accepted)), { refused: "model_not_allowlisted" });
    assert.deepEqual(await sim.until(waits.accepted), { kind: "started" });
    await sim.until(waits.ended);
    assert.deepEqual(await logged(), ["message: go", "message: Said."]);
  });

  test("whose first batch is refused has not begun, and the next one opens the log again", async () => {
    const { sim, store, submit, logged } = start();
    await sim.until(submit().ended);
    store.refused = "runs_insert";
    store.once = true;
    const first = submit();
    const waits = submit();
    const outcomes = [await sim.until(outcomeOf(first.accepted)), await sim.until(outcomeOf<unknown>(waits.accepted))];

    assert.deepEqual(outcomes, [{ refused: "storage_unavailable" }, { answer: { kind: "started" } }]);
    await sim.until(waits.ended);
    await sim.until(submit().ended);
    const log = await logged();
    assert.equal(log.length % 2, 0);
    for (const [at, line] of log.entries()) assert.equal(line, at % 2 === 0 ? "message: go" : "message: Said.");
  });

  test("that never begins blocks others for half a minute, not for ever", async () => {
    const { sim, ask, submit } = start();
    const held = await sim.until(ask("gone"));
    const early = submit();
    await sim.advance(20_000);
    const outcome = await sim.until(outcomeOf(early.accepted));
    await sim.advance(11_000);
    const late = submit();

    assert.equal("answer" in held && held.answer.kind, "open");
    assert.deepEqual(outcome, { refused: "deadline_exceeded" });
    assert.deepEqual(await sim.until(late.accepted), { kind: "started" });
    await sim.until(late.ended);
  });

  test("writes only while it is the live one: another is refused", async () => {
    const { sim, process, address, submit, logged } = start();
    await sim.until(submit().ended);
    const live = submit();
    await sim.until(live.accepted);
    const entries = [{ kind: "message", role: "user", content: "forged", extra: null }] as const;
    const principal = { sub: "mallory", scopes: [], scheme: "none", issuer: "" };
    const foreign = { run_id: "foreign", epoch: null, entries, ops: [] };
    // Another process has claimed this run. The former owner knows the run by its id alone.
    const former = { ...foreign, run_id: live.runId, epoch: 77 };
    const first = { ...foreign, manifest: "agent", model_id: "", preview: null };
    const ending = { status: "completed", stop_reason: null, error: null, usage: null } as const;
    const asked = { surface: "chat", request_id: "", principal, routes: [], temperature: 0, max_tokens: null } as const;
    const run = {
      run_id: "foreign",
      owner: "x",
      manifest: "agent",
      manifest_digest: "",
      manifest_version: null,
      parent_run_id: null,
      hops: 0,
      asked,
      idempotency_scope: null,
      started_at: 0,
    };

    const refusals = [
      process.bus.ask(address, "append", foreign),
      process.bus.ask(address, "end", { ...foreign, ending, next_seq: 0, unless: null }),
      process.bus.ask(address, "begin", { ...first, run }),
      process.bus.ask(address, "append", former),
      process.bus.ask(address, "end", { ...former, ending, next_seq: 0, unless: null }),
    ].map((asked) => sim.until(outcomeOf(asked as Promise<unknown>)));

    assert.deepEqual(await Promise.all(refusals), [
      { refused: "actor_lost" },
      { refused: "actor_lost" },
      { refused: "conflict" },
      { refused: "actor_lost" },
      { refused: "actor_lost" },
    ]);
    process.bus.tell(address, "release", { run_id: live.runId, epoch: 77 });
    await sim.until(live.ended);
    assert.deepEqual(await logged(), ["message: go", "message: Said.", "message: go", "message: Said."]);
  });

  test("STREAM-033 sends approval_required under no id below that of an earlier frame", async () => {
    const sum = { id: "sum", name: "calculator", arguments: `{"expression":"1+${started}"}` };
    const { sim, store, submit } = start((earlier) =>
      earlier === 0 ? { calls: [sum, { id: "tick", name: "tick", arguments: "{}" }] } : { text: ["Said."] },
    );
    const { promise: until, resolve: answer } = Promise.withResolvers<void>();
    store.delayed = { statement: "waits_by_wait_id", until };
    const turn = submit({ manifest: "gated" });
    await sim.until(turn.accepted);
    await sim.advance(2_000);
    const early = turn.outline;
    answer();
    await sim.advance(2_000);

    assert.ok(early.includes("tool_end tick") && !early.includes("approval_required"), early.join());
    assert.ok(turn.outline.includes("approval_required"));
    const ids = turn.frames.flatMap(({ id }) => (id === null ? [] : Number(id)));
    assert.deepEqual(
      ids,
      ids.toSorted((a, b) => a - b),
    );
  });

  test("reports each parallel call at its own log position, also in a shared batch", async () => {
    const add = (id: string) => ({ id, name: "calculator", arguments: '{"expression":"1+1"}' });
    const { sim, submit } = start((earlier) =>
      earlier === 0 ? { text: [], calls: [add("a"), add("b"), add("c")] } : { text: ["Two."] },
    );
    const turn = submit({ manifest: "calls" });
    await sim.until(turn.ended);

    const places = turn.frames
      .filter(({ name }) => name === "tool_start" || name === "tool_end")
      .map(({ name, id, json }) => `${name} ${json.data.id} ${id}`);
    // Question, answer with its calls, three intents, three results: each frame has the position after its own event.
    assert.deepEqual(places.slice(0, 3), ["tool_start a 3", "tool_start b 4", "tool_start c 5"]);
    assert.deepEqual(places.slice(3).sort(), ["tool_end a 6", "tool_end b 7", "tool_end c 8"]);
  });
});
