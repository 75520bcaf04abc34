import assert from "node:assert/strict";
import { wakeDueRuns } from "../../actors/durable/due-waits.ts";
import { defineTool, type Tool } from "../../actors/tools/tool.ts";
import { type Address, runAddress, threadAddress } from "../../bus/address.ts";
import { Type } from "../../bus/type.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store, TenantStore } from "../../storage/store/store.ts";
import { interruptedRun } from "../../storage/tables/abandoned-runs.ts";
import { eventId, type LogEvent, readEvents } from "../../storage/tables/events.ts";
import { type ThreadRow, tasksOfThread, threadBySuffix } from "../../storage/tables/threads.ts";
import { openWaitsOfThread } from "../../storage/tables/waits.ts";
import { ActorProcess, type AskedTurn, type TestTurn, tenantId } from "./actor-process.ts";
import { type Outcome, outcomeOf } from "./outcome.ts";
import { ScriptedModel, type ScriptedReply, type ShownMessage } from "./scripted-model.ts";
import type { SimDisk } from "./sim-disk.ts";
import type { Sim, SimEnv } from "./sim-env.ts";
import { SimListener } from "./sim-listener.ts";
import { call } from "./slow-turns.ts";

// One thread under everything that users and the world may do: turns, aborts, answers, forks, rewinds, listeners that
// come and go, and processes that end at any moment, all at seeded times. The promises are recorded outside of it, and
// compared with the log at rest.

/** Calls of one run that its manifest allows. */
const toolCallsMax = 8;
const working = { tools: ["note", "ask"], limits: { max_tool_calls: toolCallsMax } };
const to = (name: string) => ({ delegation: { agents: [{ name }] } });
/** The manifests that its turns are run with. */
export const conversationManifests = {
  sequential: { ...working, ...to("child") },
  parallel: { ...working, ...to("child"), execution: { tools: "parallel" } },
  child: { ...working, ...to("grandchild"), execution: { tools: "parallel" } },
  grandchild: working,
};
/** The agent that gets an agent's tasks, by the number of its parents. */
const below = ["child", "grandchild"];

const alice = { tenant_id: tenantId, sub: "alice", scopes: [], scheme: "none", issuer: "" };
const everybody = { scopes: [], principal: null, not_principal: null };
/** Longer than any wait of a thread that needs no answer. */
const restMs = 120_000;

type Promised = "accepted" | "refused" | "unknown";

export class SimConversation {
  readonly #sim: Sim;
  readonly #disk: SimDisk;
  readonly #settings: Settings;
  readonly #suffix: string;
  #env: SimEnv;
  #store: Store;
  #process: ActorProcess;
  #boots = 0;
  #said = 0;
  #forks = 0;
  #calls = 0;
  /** The messages of clients, and whether they were acknowledged. */
  readonly #words = new Map<string, Promised>();
  /** The external count of a call's effect. */
  readonly #effects = new Map<string, number>();
  /** The answers to a wait by its id, and those of them that were accepted. */
  readonly #answers = new Map<string, { readonly accepted: unknown[] }>();
  #turns: TestTurn[] = [];
  #listener: SimListener | null = null;
  /** The last prompt of the model. */
  #shown: readonly ShownMessage[] = [];
  /** No more requests are made. */
  #isLast = false;
  /** Until then the disk accepts nothing. */
  #fullUntil = 0;
  /** The actions with their times, for the search for the cause of a failure. */
  readonly #done: string[] = [];
  /** The kinds of events so far: a test checks that its seeds meet enough of them. */
  readonly seen = new Set<string>();

  constructor(sim: Sim, disk: SimDisk, settings: Settings, suffix: string) {
    this.#sim = sim;
    this.#disk = disk;
    this.#settings = settings;
    this.#suffix = suffix;
    this.#env = sim.env();
    this.#store = this.#newStore();
    this.#process = this.#boot();
  }

  /** Takes random actions at random times, and then lets the world rest. */
  async live(actions: number): Promise<void> {
    const sim = this.#sim;
    for (let done = 0; done < actions; done++) {
      await this.#act();
      await sim.advance(sim.int(3) === 0 ? 0 : sim.int(60));
    }
    await this.#rest();
  }

  async #act(): Promise<void> {
    const choice = this.#sim.int(27);
    this.#done.push(`${this.#sim.now % 1_000_000} action ${choice}, next ${(await this.#head())?.next_seq}`);
    if (choice < 7) this.#say();
    else if (choice < 8) this.#continue();
    else if (choice < 10) await this.#abort();
    else if (choice < 13) await this.#answer();
    else if (choice < 14) await this.#fork();
    else if (choice < 15) await this.#rewind();
    else if (choice < 16) await this.#custom();
    else if (choice < 18) await this.#listen();
    else if (choice < 22) this.#steer();
    else if (choice < 23) this.#compact();
    else if (choice < 25) this.#fillDisk();
    else await this.#crash();
  }

  get #tenant(): TenantStore {
    return this.#store.tenant(tenantId);
  }

  #head(): Promise<ThreadRow | undefined> {
    return threadBySuffix(this.#tenant, this.#suffix);
  }

  #log({ thread_key, next_seq }: ThreadRow): Promise<LogEvent[]> {
    return readEvents(this.#tenant, thread_key, 0, next_seq);
  }

  #newStore(): Store {
    return this.#disk.store(this.#sim, this.#env, undefined, () => this.#sim.now < this.#fullUntil);
  }

  #boot(): ActorProcess {
    const env = this.#env;
    const model = new ScriptedModel(
      env,
      (messages) => this.#reply(messages),
      () => this.#sim.int(6),
    );
    return new ActorProcess({
      env,
      store: this.#store,
      settings: this.#settings,
      model,
      tools: this.#tools(),
      bootId: `${this.#suffix}-${this.#boots++}`,
    });
  }

  /** Text, or a few calls with unique ids. */
  #reply(messages: readonly ShownMessage[]): ScriptedReply {
    const sim = this.#sim;
    const depth = Number(
      /^task of depth (\d)/.exec(messages.find(({ role }) => role === "user")?.content ?? "")?.[1] ?? 0,
    );
    if (depth === 0) this.#shown = messages;
    const usage = { input: 10, output: 2, cacheRead: 0, cacheWrite: 0 };
    const text = ["One. ", "Two."].slice(0, 1 + sim.int(2));
    if (this.#isLast) return { text, usage };
    if (sim.int(20) === 0) return { text, failure: "the provider is gone" };
    if (sim.int(5) < 2) return { text, usage };
    const calls = Array.from({ length: 1 + sim.int(3) }, () => {
      const id = `${this.#suffix}-${this.#calls++}`;
      const agent = below[depth];
      if (agent !== undefined && sim.int(4) === 0)
        return call(id, "task", { agent, prompt: `task of depth ${depth + 1}, ${id}` });
      return call(id, ["note", "note", "ask", "no_such_tool"][sim.int(4)] as string, { id });
    });
    return { text: sim.int(2) === 0 ? text : [], calls, usage };
  }

  #tools(): Tool[] {
    const parameters = Type.Object({ id: Type.String() }, { additionalProperties: false });
    const note = defineTool({
      name: "note",
      description: "Leaves a trace.",
      parameters,
      effect: "once",
      risk: "writes",
      execute: ({ id }, { env }) => {
        this.#effects.set(id, (this.#effects.get(id) ?? 0) + 1);
        return new Promise((resolve) => env.timer(this.#sim.int(20), () => resolve({ text: `noted ${id}` })));
      },
    });
    const ask = defineTool({
      name: "ask",
      description: "Asks a person.",
      parameters,
      effect: "once",
      risk: "reads",
      execute: ({ id }, { env }) => {
        const deadline = this.#sim.int(3) === 0 ? env.now() + this.#sim.int(200) : null;
        return { wait: { kind: "question", subject: id, deadline, may_answer: everybody } };
      },
      resume: ({ id }, outcome) =>
        outcome.kind === "expired" ? { error: "timeout", text: "nobody came" } : { text: `${id}: ${outcome.value}` },
    });
    return [note, ask];
  }

  #say(): void {
    const words = `${this.#suffix} says ${this.#said++}`;
    const turn = this.#submit({ messages: [{ role: "user", content: words }] });
    this.#promise(words, turn.accepted);
  }

  #steer(): void {
    const words = `${this.#suffix} steers ${this.#said++}`;
    const kind = this.#sim.int(3) === 0 ? "follow_up" : "steer";
    const body = { text: words, kind, principal: alice } as const;
    this.#promise(words, this.#process.bus.ask(threadAddress(tenantId, this.#suffix), "steer", body));
    this.#see(kind);
  }

  #compact(): void {
    const turn = this.#submit({ surface: "compact", messages: [{ role: "user", content: "" }] });
    void outcomeOf(turn.accepted).then((outcome) => this.#see("answer" in outcome ? "compacts" : outcome.refused));
  }

  #continue(): void {
    this.#submit({ surface: "continue", messages: [] });
  }

  #submit(asked: Partial<AskedTurn>): TestTurn {
    const manifest = this.#sim.int(2) === 0 ? "sequential" : "parallel";
    const turn = this.#process.submit({ manifest, thread_suffix: this.#suffix, ...asked });
    this.#turns.push(turn);
    return turn;
  }

  /** Records the fate of a message. Only refused messages are known to be unstored. */
  #promise(words: string, asked: Promise<unknown>): void {
    this.#words.set(words, "unknown");
    void outcomeOf(asked).then((outcome) => {
      if ("answer" in outcome) this.#words.set(words, "accepted");
      else if (outcome.refused === "run_in_progress") this.#words.set(words, "refused");
      this.#see("answer" in outcome ? "taken" : outcome.refused);
    });
  }

  #see(what: string): void {
    this.seen.add(what);
  }

  /** For a while no batch is accepted. */
  #fillDisk(): void {
    this.#fullUntil = this.#sim.now + this.#sim.int(40);
    this.#see("full");
  }

  async #abort(): Promise<void> {
    const outcome = await this.#asked(this.#process.abort(this.#suffix));
    if (outcome && "answer" in outcome && outcome.answer.aborted) this.#see("aborted");
  }

  /** Lets time pass until an ask is answered; null when it never was. */
  async #asked<T>(asked: Promise<T>): Promise<Outcome<T> | null> {
    return this.#sim.until(outcomeOf(asked), restMs);
  }

  /** Two people answer one of the open questions, at nearly the same time. */
  async #answer(): Promise<void> {
    const head = await this.#head();
    if (!head) return;
    const asked = await openWaitsOfThread(this.#tenant, head.thread_key, 99);
    if (asked.some(({ kind }) => kind === "task")) this.#see("a task waits");
    const open = asked.filter(({ kind }) => kind !== "task");
    const wait = open[this.#sim.int(Math.max(1, open.length))];
    if (!wait) return;
    if (wait.suffix !== this.#suffix) this.#see("a task is answered");
    const both = [0, 1].slice(this.#sim.int(2)).map(async (at) => {
      const value = `answer ${at}`;
      const body = { wait_id: wait.wait_id, value, principal: alice };
      const to = runAddress(tenantId, wait.suffix, wait.run_id);
      const outcome = await outcomeOf(this.#process.bus.ask(to, "answer", body));
      if (!("answer" in outcome) || outcome.answer.outcome !== "accepted") return;
      const known = this.#answers.get(wait.wait_id) ?? { accepted: [] };
      known.accepted.push(value);
      this.#answers.set(wait.wait_id, known);
      this.#see("answered");
    });
    await this.#sim.until(Promise.all(both), restMs);
  }

  async #fork(): Promise<void> {
    const to = `${this.#suffix}-fork-${this.#forks++}`;
    const body = { source: this.#suffix, event_id: null };
    const outcome = await this.#asked(this.#process.bus.ask(threadAddress(tenantId, to), "fork", body));
    if (!outcome || !("answer" in outcome)) return;
    const head = await threadBySuffix(this.#tenant, to);
    assert.ok(head, "what was copied is there");
    const events = await this.#log(head);
    assertTree(head, events);
    assertCallsAnswered(events);
    this.#see("forked");
  }

  async #rewind(): Promise<void> {
    const head = await this.#head();
    if (!head || head.next_seq === 0) return;
    const to = eventId(head.uid, this.#sim.int(head.next_seq));
    const channel = this.#process.bus.openChannel(() => {});
    const asked = { event_id: to, summarize: false, instructions: "", manifest: null, request_id: "r", channel };
    const body = { ...asked, principal: alice };
    const outcome = await this.#asked(this.#process.bus.ask(threadAddress(tenantId, this.#suffix), "rewind", body));
    if (outcome && "answer" in outcome) this.#see("rewound");
  }

  async #custom(): Promise<void> {
    const words = `${this.#suffix} adds ${this.#said++}`;
    const body = { content: words, role: "user", in_context: true, metadata: "{}" } as const;
    this.#promise(words, this.#process.bus.ask(threadAddress(tenantId, this.#suffix), "custom", body));
  }

  async #listen(): Promise<void> {
    await this.#stopListening();
    const head = await this.#head();
    const cursor = head ? this.#sim.int(head.next_seq + 1) : 0;
    this.#listener = new SimListener(this.#process.bus, threadAddress(tenantId, this.#suffix), cursor);
    this.#see("listened");
  }

  /** Checks the received events as complete so far. */
  async #stopListening(atRest = false): Promise<void> {
    const listener = this.#listener;
    this.#listener = null;
    if (listener === null) return;
    await this.#sim.until(listener.attached, restMs);
    listener.stop();
    const head = await this.#head();
    if (head) listener.check(await this.#log(head), atRest);
  }

  /** The process ends without warning; its unwritten batches are lost. */
  async #crash(): Promise<void> {
    this.#see(this.#turns.length > 0 ? "crashed after a turn" : "crashed");
    assert.deepEqual(this.#process.crashes, []);
    this.#env.end();
    this.#process.close();
    this.#listener = null;
    this.#turns = [];
    this.#env = this.#sim.env();
    this.#store = this.#newStore();
    this.#process = this.#boot();
    for (const { suffix } of this.#liveRuns().filter(({ status }) => status === "running"))
      await this.#recover(threadAddress(tenantId, String(suffix)));
  }

  /** Recovers like a starting process: until it has a result. */
  async #recover(thread: Address<"thread">): Promise<void> {
    for (;;) {
      const outcome = await this.#asked(this.#process.bus.ask(thread, "recover", {}));
      if (outcome !== null && "answer" in outcome) return;
      await this.#sim.advance(20);
    }
  }

  /** The unfinished runs of the thread and of its tasks. */
  #liveRuns() {
    return this.#disk.query(
      `SELECT t.suffix, r.status FROM runs r JOIN threads t ON t.thread_key = r.thread_key
       WHERE r.ended_at IS NULL AND (t.suffix = ? OR (t.parent_session_id = ? AND t.updated_at = 0))`,
      this.#suffix,
      `${tenantId}:${this.#suffix}`,
    );
  }

  /** Answers all open questions, and compares the log with the promises. */
  async #rest(): Promise<void> {
    for (let rounds = 0; ; rounds++) {
      assert.ok(rounds < 100, "the conversation does not come to rest");
      await this.#sim.advance(1_000);
      await this.#sim.until(wakeDueRuns(this.#store, this.#process.bus), restMs);
      await this.#sim.advance(1_000);
      const head = await this.#head();
      if (!head) break;
      if (this.#liveRuns().every(({ status }) => status !== "waiting")) break;
      await this.#answer();
    }
    await this.#sim.until(Promise.all(this.#turns.map(({ accepted }) => outcomeOf(accepted))), restMs);
    await this.#sim.advance(5_000);
    await this.#sayLast();
    await this.#stopListening(true);
    assert.deepEqual(this.#process.crashes, []);
    await this.#check();
    this.#process.close();
    this.#env.end();
  }

  /** The log, a line for each event, for the search for the cause of a failure. */
  async outline(): Promise<string> {
    const head = await this.#head();
    if (!head) return "no thread";
    const lines = (await this.#log(head)).map(({ seq, parent_seq, kind, role, content, extra }) =>
      [seq, `<${parent_seq}`, kind, role, content, JSON.stringify(extra)].join(" "),
    );
    const runs = this.#disk.query(
      "SELECT run_id, status, epoch, owner FROM runs WHERE thread_key = ?",
      head.thread_key,
    );
    const waits = this.#disk.query("SELECT wait_id, state, answer FROM waits WHERE thread_key = ?", head.thread_key);
    return [
      ...lines,
      `leaf ${head.leaf_seq}`,
      ...this.#done,
      ...[...runs, ...waits].map((row) => JSON.stringify(row)),
    ].join("\n");
  }

  /** One more turn, whose prompt has the active branch and nothing else. */
  async #sayLast(): Promise<void> {
    this.#isLast = true;
    this.#say();
    await this.#sim.until((this.#turns.at(-1) as TestTurn).ended, restMs);
    await this.#sim.advance(5_000);
    const head = (await this.#head()) as ThreadRow;
    const events = await this.#log(head);
    const branch: LogEvent[] = [];
    for (let seq = head.leaf_seq; seq >= 0; seq = branch.at(-1)?.parent_seq ?? -1) branch.push(events[seq] as LogEvent);
    const said = ({ content }: { readonly content: string }): string[] =>
      content.match(/\S+ (?:says|adds|steers) \d+/g) ?? [];
    const onBranch = branch.reverse().flatMap(said);
    const shown = this.#shown.filter(({ role }) => role === "user").flatMap(said);
    if (branch.some(({ kind }) => kind === "compaction"))
      assert.deepEqual(
        shown.filter((words) => !onBranch.includes(words)),
        [],
        "shown to the model of another branch",
      );
    else assert.deepEqual([...shown].sort(), [...onBranch].sort(), "shown to the model");
  }

  async #check(): Promise<void> {
    const head = await this.#head();
    const events = head ? await this.#log(head) : [];
    const tasks = await this.#taskLogs();
    const queue = this.#disk.query("SELECT content FROM queued_inputs WHERE thread_key = ?", head?.thread_key ?? -1);
    this.#checkWords(
      events,
      queue.map(({ content }) => content),
    );
    this.#checkEffects([events, ...tasks.map((task) => task.events)].flat());
    if (!head) return;
    for (const log of [{ head, events }, ...tasks]) {
      assertTree(log.head, log.events);
      assertCallsAnswered(log.events);
      this.#checkWaits(log.events);
    }
    assert.deepEqual(this.#liveRuns(), [], "a run is not over");
    assert.equal(await interruptedRun(this.#tenant, head.thread_key), undefined, "a run is still live");
    assert.deepEqual(await openWaitsOfThread(this.#tenant, head.thread_key, 9), [], "a question is still open");
    await this.#checkRuns(head, events, tasks);
  }

  /** The conversations of its tasks. */
  async #taskLogs(): Promise<{ head: ThreadRow; events: LogEvent[] }[]> {
    const suffixes = await tasksOfThread(this.#tenant, `${tenantId}:${this.#suffix}`, "", 999);
    return Promise.all(
      suffixes.map(async (suffix) => {
        const head = (await threadBySuffix(this.#tenant, suffix)) as ThreadRow;
        return { head, events: await this.#log(head) };
      }),
    );
  }

  /** Asserts that each message is in the log, or waits for the next run. */
  #checkWords(events: readonly LogEvent[], waiting: readonly unknown[]): void {
    for (const [words, promised] of this.#words) {
      const times =
        events.filter(({ content }) => content === words).length +
        waiting.filter((content) => content === words).length;
      if (promised === "accepted") assert.equal(times, 1, `${words}, which was accepted`);
      else if (promised === "refused") assert.equal(times, 0, `${words}, which was refused`);
      else assert.ok(times <= 1, `${words}, of which nobody was told`);
    }
  }

  /** Asserts that no effect is repeated, and that the log reports it truly. */
  #checkEffects(events: readonly LogEvent[]): void {
    for (const [id, times] of this.#effects) assert.equal(times, 1, `${id} has run ${times} times`);
    for (const { extra, content } of events.filter(({ kind }) => kind === "tool_result")) {
      const id = extra?.tool_call_id ?? "";
      if (content.startsWith("noted ")) assert.ok(this.#effects.has(id), `${id} did not run`);
      if (content.includes("not run:")) assert.ok(!this.#effects.has(id), `${id} has run, and the log says ${content}`);
      this.#see(content.replace(/\S+-\d+/, "<id>"));
    }
  }

  #checkWaits(events: readonly LogEvent[]): void {
    const ends = new Map<unknown, LogEvent[]>();
    const opened = new Map<unknown, LogEvent>();
    for (const event of events) {
      const { type, wait_id } = event.extra?.metadata ?? {};
      if (type === "wait_opened") opened.set(wait_id, event);
      if (type === "wait_ended") ends.set(wait_id, [...(ends.get(wait_id) ?? []), event]);
    }
    for (const [id, of] of ends) assert.equal(of.length, 1, `the wait ${id} has ended ${of.length} times`);
    // A process that dies after a run's question and before its wait leaves a closed call that does not mention the
    // wait.
    const closed = new Set(
      events
        .filter(({ content }) => content.startsWith("[tool error/interrupted]"))
        .map(({ extra }) => extra?.tool_call_id),
    );
    for (const [id, { extra }] of opened)
      assert.ok(ends.has(id) || closed.has(String(extra?.metadata?.tool_call_id)), `the wait ${id} has no end`);
    for (const [id, { accepted }] of this.#answers) {
      assert.equal(accepted.length, 1, `the wait ${id} has taken ${accepted}`);
      const end = ends.get(id)?.[0];
      if (end?.extra?.metadata?.how !== "answered") continue;
      const result = events.find(
        ({ kind, extra, seq }) =>
          kind === "tool_result" && extra?.tool_call_id === end.extra?.metadata?.tool_call_id && seq > end.seq - 2,
      );
      assert.match(result?.content ?? "", new RegExp(`: ${accepted[0]}$`), `the wait ${id}`);
    }
  }

  /** The keys of the conversations that a run has handed tasks to, and their runs in turn. */
  #tasksBelow(runId: string): unknown[] {
    const rows = this.#disk.query("SELECT run_id, thread_key FROM runs WHERE parent_run_id = ?", runId);
    return rows.flatMap(({ run_id, thread_key }) => [thread_key, ...this.#tasksBelow(String(run_id))]);
  }

  /** Asserts that every run is over, within its number of calls, and billed for its model's answers. */
  async #checkRuns(
    head: ThreadRow,
    events: readonly LogEvent[],
    tasks: readonly { readonly head: ThreadRow; readonly events: readonly LogEvent[] }[],
  ): Promise<void> {
    const runs = this.#disk.query("SELECT * FROM runs WHERE thread_key = ?", head.thread_key);
    for (const { run_id, status, first_seq, last_seq } of runs) {
      assert.ok(status === "completed" || status === "failed", `the run ${run_id} is ${status}`);
      const own = events.filter(({ seq }) => seq >= Number(first_seq) && seq <= Number(last_seq));
      const below = this.#tasksBelow(String(run_id));
      const ofTasks = tasks.filter((task) => below.includes(task.head.thread_key)).flatMap((task) => task.events);
      const intents = [...own, ...ofTasks].filter(({ kind }) => kind === "tool_call");
      assert.ok(intents.length <= toolCallsMax, `${intents.length} calls of ${run_id}`);
    }
    const [billed] = this.#disk.query(
      "SELECT count(*) AS n FROM usage WHERE thread_id = ?",
      `${tenantId}:${this.#suffix}`,
    );
    const answers = [events, ...tasks.map((task) => task.events)]
      .flat()
      .filter(({ extra }) => extra?.metadata?.usage !== undefined);
    assert.ok(Number(billed?.n) >= answers.length, `${billed?.n} rows of usage for ${answers.length} answers`);
  }
}

/** Parents come before their children, there is one root, and the leaf is an event. */
function assertTree({ leaf_seq, next_seq }: ThreadRow, events: readonly LogEvent[]): void {
  assert.deepEqual(
    events.map(({ seq }) => seq),
    Array.from({ length: next_seq }, (_, seq) => seq),
    "events without a gap",
  );
  for (const { seq, parent_seq } of events)
    assert.ok(parent_seq < seq && parent_seq >= -1, `${seq} below ${parent_seq}`);
  assert.ok(leaf_seq < next_seq && (next_seq === 0 || leaf_seq >= 0), `leaf ${leaf_seq} of ${next_seq}`);
}

/** Asserts that each call has one result, on every branch after it. */
function assertCallsAnswered(events: readonly LogEvent[]): void {
  const results = events.filter(({ kind }) => kind === "tool_result").map(({ extra }) => extra?.tool_call_id ?? "");
  const asked = events.flatMap(({ extra }) => extra?.tool_calls ?? []).map(({ id }) => id);
  assert.deepEqual([...new Set(results)].sort(), [...new Set(asked)].sort(), "each call has a result");
  for (const { seq, extra } of events)
    for (const { id } of extra?.tool_calls ?? []) {
      const count = onBranches(events, seq, id);
      assert.ok(count <= 1, `the call ${id} has ${count} results on one branch`);
    }
}

/** The highest number of results of a call on one branch after an event. */
function onBranches(events: readonly LogEvent[], seq: number, id: string): number {
  const counts = new Map<number, number>([[seq, 0]]);
  let most = 0;
  for (const event of events) {
    const before = counts.get(event.parent_seq);
    if (before === undefined || event.seq <= seq) continue;
    const count = before + (event.kind === "tool_result" && event.extra?.tool_call_id === id ? 1 : 0);
    counts.set(event.seq, count);
    most = Math.max(most, count);
  }
  return most;
}
