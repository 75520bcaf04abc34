import assert from "node:assert/strict";
import { eventsMax } from "../../storage/tables/events.ts";
import type { SimDisk } from "./sim-disk.ts";
import type { SimReceivers } from "./sim-receivers.ts";

// The promises about durable runs, recorded outside of them, and compared with the store and the effects when all runs
// rest.

/** Durable runs that a process works on at a time. */
export const slotsMax = 2;
/** Tool calls of a run and of its background tasks. */
export const treeCallsMax = 9;
/** Concurrent background tasks of a thread. */
export const tasksMax = 2;
/** Failures in a row after which a run is dead. */
export const triesMax = 3;
/** The delay of a postponed step. */
const backOffMs = { least: 60_000, most: 3_600_000 };

/** A turn as a client requested it. */
export interface AskedRun {
  readonly tenant: string;
  readonly suffix: string | null;
  /** A unique message. */
  readonly words: string;
  readonly key: string | null;
  /** Its model never answers. */
  readonly isCursed: boolean;
}

/** An event as a listener received it, or as the log has it. */
interface Heard {
  readonly seq: number;
  readonly kind: string;
  readonly content: string;
}

interface LoggedEvent extends Heard {
  readonly role: string | null;
  readonly run: number | null;
  readonly extra: {
    readonly tool_call_id?: string;
    readonly tool_calls?: readonly { readonly id: string }[];
    readonly metadata?: Readonly<Record<string, unknown>>;
  } | null;
}

/** The effect of a tool, with its count and its hosts. */
interface Effect {
  readonly effect: string;
  readonly key: string;
  times: number;
  readonly on: string[];
}

/** A durable run as it is stored. */
interface RunFound {
  readonly run_id: string;
  readonly run_key: number;
  readonly thread_key: number;
  readonly tenant_id: string;
  readonly suffix: string;
  readonly status: string;
  readonly result: string | null;
  readonly final: string | null;
  readonly error: string | null;
  readonly ended_at: number | null;
  readonly attempts: number;
  readonly lost: number;
  readonly wake_at: number | null;
  readonly updated_at: number;
  readonly asked: {
    readonly parent?: { readonly task_id: string; readonly root_run_id: string; readonly root_key: number };
  };
}

interface Approval {
  readonly id: string;
  readonly tenant_id: string;
  readonly rule_id: string;
  readonly tool_call_id: string;
}

interface Place {
  readonly tenant_id: string;
  readonly suffix: string;
  readonly run_id: string;
}

export class DurableRecord {
  readonly asked: AskedRun[] = [];
  /** The errors that actors have crashed with. */
  readonly crashes: unknown[] = [];
  /** The kinds of events so far: a test checks that its seeds meet enough of them. */
  readonly seen = new Set<string>();
  readonly #disk: SimDisk;
  readonly #tenants: readonly string[];
  readonly #receivers: SimReceivers;
  /** Violations found where no caller can receive an error. */
  readonly #broken: string[] = [];
  readonly #tokens = new Map<string, string>();
  readonly #effects = new Map<string, Effect>();
  /** The call that each key was given with. */
  readonly #calls = new Map<string, string>();
  readonly #answers = new Map<string, string[]>();
  readonly #decided = new Map<string, Approval & { decisions: string[] }>();
  readonly #aborting = new Set<string>();
  readonly #ends = new Map<string, string>();
  readonly #heard: { readonly tenant: string; readonly suffix: string; readonly events: Heard[] }[] = [];
  #disturbances = 0;

  constructor(disk: SimDisk, tenants: readonly string[], receivers: SimReceivers) {
    this.#disk = disk;
    this.#tenants = tenants;
    this.#receivers = receivers;
  }

  see(what: string): void {
    this.seen.add(what);
  }

  /** A process has ended or stalled. */
  disturbed(): void {
    this.#disturbances++;
  }

  accepted(asked: AskedRun, runId: string): void {
    const before = this.#tokens.get(asked.words);
    if (before !== undefined && before !== runId)
      this.#broken.push(`${asked.words} was asked with its key again, and is another run: ${before}, ${runId}`);
    this.#tokens.set(asked.words, runId);
  }

  tokenOf({ words }: AskedRun): string | undefined {
    return this.#tokens.get(words);
  }

  /** Records the effect of a tool. */
  effect(name: string, effect: string, id: string, key: string, host: string): void {
    const known: Effect = this.#effects.get(id) ?? { effect, key, times: 0, on: [] };
    if (known.key !== key) this.#broken.push(`${name} ${id} was called under two keys, ${known.key} and ${key}`);
    const owner = this.#calls.get(key) ?? id;
    this.#calls.set(key, owner);
    if (owner !== id) this.#broken.push(`${name} ${id} was called under the key of ${owner}`);
    known.times++;
    known.on.push(host);
    this.#effects.set(id, known);
    if (known.times > 1) this.see(`${effect} again`);
  }

  answered(waitId: string, value: string): void {
    this.#answers.set(waitId, [...(this.#answers.get(waitId) ?? []), value]);
    this.see("answered");
  }

  decided(approval: Approval, decision: string): void {
    const known = this.#decided.get(approval.id) ?? { ...approval, decisions: [] };
    known.decisions.push(decision);
    this.#decided.set(approval.id, known);
  }

  aborting(runId: string): void {
    this.#aborting.add(runId);
    this.see("aborted");
  }

  /** The list that a listener of a thread fills with its events. */
  listener(tenant: string, suffix: string): Heard[] {
    const events: Heard[] = [];
    this.#heard.push({ tenant, suffix, events });
    return events;
  }

  /** Checks the number of runs at work in each process. A run that is stopped needs no slot for that. */
  working(atWork: readonly number[]): void {
    for (const runs of atWork)
      if (runs > slotsMax + this.#aborting.size) this.#broken.push(`${runs} runs are at work in a process`);
  }

  /** Checks that a task at work has at most the allowed number of others in its thread. */
  beside(): void {
    const tooMany = this.#query(
      `SELECT t.parent_session_id AS root, COUNT(*) AS tasks
       FROM fibers f JOIN runs r ON r.run_key = f.run_key JOIN threads t ON t.thread_key = r.thread_key
       WHERE f.tenant_id IN (?, ?) AND f.ended_at IS NULL AND t.parent_session_id IS NOT NULL
       GROUP BY t.parent_session_id HAVING COUNT(*) > ${tasksMax}`,
    );
    if (tooMany.length > 0 && this.#broken.length === 0)
      this.#broken.push(`more tasks go on beside a conversation than may: ${JSON.stringify(tooMany)}`);
  }

  /** Checks the invariants of every moment. */
  look(): void {
    assert.deepEqual([this.#broken, this.crashes], [[], []]);
    for (const run of this.#runs()) {
      const { run_id, status, final, error, ended_at, attempts, lost, wake_at, updated_at } = run;
      if (ended_at !== null) {
        const end = `${status} ${final} ${error}`;
        assert.equal(this.#ends.get(run_id) ?? end, end, `${run_id} has ended twice`);
        this.#ends.set(run_id, end);
      } else assert.ok(!this.#ends.has(run_id), `${run_id} had ended and is ${status}`);
      assert.ok(attempts <= triesMax, `${run_id} has failed ${attempts} times`);
      if (status !== "waiting" || attempts === 0 || lost > 0 || wake_at === null) continue;
      const ms = wake_at - updated_at;
      if (ms === 0) continue;
      assert.ok(ms >= backOffMs.least && ms <= backOffMs.most, `${run_id} is put off for ${ms} ms`);
    }
  }

  /** Checks the invariants of a world at rest. */
  check(): void {
    this.look();
    const runs = this.#runs();
    for (const [words, id] of this.#tokens)
      assert.ok(
        runs.some(({ run_id }) => run_id === id),
        `${words} was accepted as ${id}, which is not there`,
      );
    const logs = this.#logs();
    const all = [...logs.values()].flat();
    for (const run of runs) this.#checkRun(run, logs.get(run.thread_key) ?? [], all);
    for (const [key, log] of logs) this.#checkLog(key, log);
    this.#checkEffects(all);
    this.#checkWaits(all);
    this.#checkHeard();
    this.#checkWebhooks(runs);
    this.#checkTasks(runs, logs);
  }

  /** Every run with its state, for the search for the cause of a failure. */
  outline(): string[] {
    const logs = [...this.#logs()].map(([key, log]) =>
      [`thread ${key}`, ...log.map((event) => `  ${JSON.stringify(event)}`)].join("\n"),
    );
    const approvals = this.#query("SELECT * FROM approvals WHERE tenant_id IN (?, ?) ORDER BY id");
    return [...[...this.#runs(), ...approvals].map((row) => JSON.stringify(row)), ...logs];
  }

  openRuns(): (Place & { readonly status: string })[] {
    return this.#query(
      `SELECT f.tenant_id, f.suffix, f.run_id, r.status FROM fibers f JOIN runs r ON r.run_key = f.run_key
       WHERE r.ended_at IS NULL AND f.tenant_id IN (?, ?) ORDER BY f.run_key`,
    );
  }

  /** The runs at work on a host, by the store. */
  runningOn(host: string): Place[] {
    return this.#query<Place & { readonly owner: string }>(
      `SELECT f.tenant_id, f.suffix, f.run_id, r.owner FROM fibers f JOIN runs r ON r.run_key = f.run_key
       WHERE r.status = 'running' AND f.tenant_id IN (?, ?) ORDER BY f.run_key`,
    ).filter(({ owner }) => owner.startsWith(`${host}:`));
  }

  openQuestions(): (Place & { readonly wait_id: string })[] {
    return this.#query(
      `SELECT tenant_id, suffix, run_id, wait_id FROM waits WHERE state = 'open' AND approval_id IS NULL
       AND tenant_id IN (?, ?) ORDER BY wait_id`,
    );
  }

  pendingApprovals(): Approval[] {
    return this.#query(
      `SELECT id, tenant_id, rule_id, tool_call_id FROM approvals WHERE status = 'pending' AND tenant_id IN (?, ?) ORDER BY id`,
    );
  }

  /** Runs whose calls wait for an approval. */
  waitingFor(approvalId: string): Place[] {
    return this.#query<Place & { approval_id: string }>(
      "SELECT tenant_id, suffix, run_id, approval_id FROM waits WHERE tenant_id IN (?, ?)",
    ).filter(({ approval_id }) => approval_id === approvalId);
  }

  pendingDeliveries(): number {
    return this.lanes().length;
  }

  lanes(): { readonly tenant_id: string; readonly endpoint_id: string }[] {
    return this.#query(
      "SELECT DISTINCT tenant_id, endpoint_id FROM deliveries WHERE state = 'pending' AND tenant_id IN (?, ?)",
    );
  }

  #query<R>(sql: string): R[] {
    return this.#disk.query(sql, ...this.#tenants) as unknown as R[];
  }

  #runs(): RunFound[] {
    const rows = this.#query<RunFound & { asked: string }>(
      `SELECT f.*, r.status, r.result, r.thread_key, r.owner, r.asked FROM fibers f JOIN runs r ON r.run_key = f.run_key
       WHERE f.tenant_id IN (?, ?) ORDER BY f.run_key`,
    );
    return rows.map((row) => ({ ...row, asked: JSON.parse(row.asked) }));
  }

  #logs(): Map<number, LoggedEvent[]> {
    const logs = new Map<number, LoggedEvent[]>();
    const rows = this.#query<LoggedEvent & { event_key: number; extra: string | null }>(
      "SELECT event_key, kind, role, content, extra, run FROM events WHERE tenant_id IN (?, ?) ORDER BY event_key",
    );
    for (const { event_key, extra, ...event } of rows) {
      const key = Math.floor(event_key / eventsMax);
      const log = logs.get(key) ?? [];
      log.push({ ...event, seq: event_key % eventsMax, extra: extra === null ? null : JSON.parse(extra) });
      logs.set(key, log);
    }
    return logs;
  }

  /** Asserts that it has one ending, reported equally everywhere, and by an authorised cause. */
  #checkRun(run: RunFound, log: readonly LoggedEvent[], all: readonly LoggedEvent[]): void {
    const { run_id, status, final, error, ended_at } = run;
    this.see(`ends ${status}`);
    assert.ok(ended_at !== null, `${run_id} has not ended: ${status}`);
    const asked = this.asked.find(({ words }) => this.#tokens.get(words) === run_id);
    const isStopped = this.#aborting.has(run_id) || isOfFailedCall(log, all);
    if (status === "failed") assert.ok(isStopped, `${run_id} has failed: ${error}`);
    else if (status === "dead") assert.match(error ?? "", /^model_failed/, run_id);
    else assert.equal(status, "completed", `${run_id}: ${error}`);
    if (asked?.isCursed) assert.notEqual(status, "completed", `${run_id} has no model`);
    const own = log.filter(({ run: number }) => number === run.run_key % 2 ** 24);
    const asking = own.filter(({ role }) => role === "user");
    assert.equal(asking.length, 1, `${run_id} was asked for once`);
    const said = own.filter(({ kind, role }) => kind === "message" && role === "assistant");
    const answers = said.filter(({ extra }) => !extra?.tool_calls?.length);
    assert.ok(answers.length <= 1, `${run_id} has ${answers.length} ends in its log`);
    // A run at its turn limit ends in the text next to its calls.
    if (status === "completed") assert.equal(said.at(-1)?.content ?? "", final ?? "", `the end of ${run_id}`);
  }

  /** Events without a gap, and a result for each call. */
  #checkLog(key: number, log: readonly LoggedEvent[]): void {
    assert.deepEqual(
      log.map(({ seq }) => seq),
      log.map((_, at) => at),
      `the log ${key} has a gap`,
    );
    const [head] = this.#disk.query("SELECT next_seq FROM threads WHERE thread_key = ?", key);
    assert.equal(head?.next_seq, log.length, `the head of the log ${key}`);
    const asked = log.flatMap(({ extra }) => extra?.tool_calls ?? []).map(({ id }) => id);
    const results = log.filter(({ kind }) => kind === "tool_result").map(({ extra }) => extra?.tool_call_id);
    assert.deepEqual(results.toSorted(), asked.toSorted(), `each call of the log ${key} has one result`);
  }

  /** Asserts that effects keep their bound, have an intent, and never belong to a denied call. */
  #checkEffects(all: readonly LoggedEvent[]): void {
    const intents = new Set(
      all.filter(({ kind }) => kind === "tool_call").map(({ extra }) => extra?.tool_call_id ?? ""),
    );
    const decisions = [...this.#decided.values()];
    for (const [id, { effect, times, on }] of this.#effects) {
      assert.ok(intents.has(id), `${id} has run, and the log knows of no intent`);
      const again = decisions.filter(
        ({ rule_id, tool_call_id, decisions }) =>
          rule_id === "outcome-unknown" && tool_call_id === id && decisions.includes("approved"),
      );
      if (effect === "once")
        assert.ok(times <= 1 + again.length, `${id}, which may run once, has run ${times} times: ${on}`);
      const refused = decisions.find(
        ({ rule_id, tool_call_id, decisions }) =>
          rule_id !== "outcome-unknown" && tool_call_id === id && decisions.every((each) => each === "denied"),
      );
      assert.equal(refused, undefined, `${id} was denied, and has run`);
    }
    for (const { kind, extra, content } of all) {
      if (kind !== "tool_result") continue;
      const id = extra?.tool_call_id ?? "";
      if (/^(?:look|put|note|pay) /.test(content)) assert.ok(this.#effects.has(id), `${id} did not run: ${content}`);
      if (content.includes("not run:")) assert.ok(!this.#effects.has(id), `${id} has run, and the log says ${content}`);
      if (content.includes("outcome unknown")) this.see("outcome unknown");
      if (content.includes("nobody came")) this.see("nobody came");
    }
  }

  /** A wait has one end, and one answer at most, which is the result of its call. */
  #checkWaits(all: readonly LoggedEvent[]): void {
    const ends = all.filter(({ extra }) => extra?.metadata?.type === "wait_ended");
    const ids = ends.map(({ extra }) => extra?.metadata?.wait_id);
    assert.equal(new Set(ids).size, ids.length, `a wait has ended twice: ${ids}`);
    assert.deepEqual(this.openQuestions(), [], "a question is still open");
    for (const [id, values] of this.#answers) {
      assert.equal(values.length, 1, `the wait ${id} has taken ${values}`);
      const end = ends.find(({ extra }) => extra?.metadata?.wait_id === id)?.extra?.metadata;
      if (end?.how !== "answered") continue;
      const result = all.find(({ kind, extra }) => kind === "tool_result" && extra?.tool_call_id === end.tool_call_id);
      assert.equal(result?.content, `${end.tool_call_id}: ${values[0]}`, `the answer of the wait ${id}`);
    }
  }

  /** Asserts that every listener received the log's own events, each once and in order. */
  #checkHeard(): void {
    for (const { tenant, suffix, events } of this.#heard) {
      const [head] = this.#disk.query(
        "SELECT thread_key FROM threads WHERE tenant_id = ? AND suffix = ?",
        ...[tenant, suffix],
      );
      const log = this.#logs().get(Number(head?.thread_key)) ?? [];
      let before = -1;
      for (const { seq, kind, content } of events) {
        const stored = log[seq];
        assert.deepEqual([stored?.kind, stored?.content], [kind, content], `event ${seq} of ${suffix} was told of`);
        assert.ok(seq > before, `event ${seq} of ${suffix} was told behind ${before}`);
        before = seq;
      }
    }
  }

  /** Each endpoint has received each ending under one id, at most as often as processes were disturbed. */
  #checkWebhooks(runs: readonly RunFound[]): void {
    const all = [...this.#receivers.received.values()].map((got) => ({ ...got, said: JSON.parse(got.body) }));
    for (const run of runs) {
      // The parent of a task learns of its outcome, and no endpoint does.
      const isTask = run.asked.parent !== undefined;
      for (const host of ["ops.example", "audit.example"]) {
        if (isTask) {
          assert.ok(
            !all.some(({ said }) => said.run.fiber_id === run.run_id),
            `${host} was told of the task ${run.run_id}`,
          );
          continue;
        }
        const got = all.filter((each) => each.host === host && each.said.run.fiber_id === run.run_id);
        assert.equal(got.length, 1, `${host} knows the end of ${run.run_id} under ${got.map(({ id }) => id)}`);
        const [{ said, taken }] = got as [(typeof all)[number]];
        assert.ok(taken >= 1, `${host} has not taken the end of ${run.run_id}`);
        assert.ok(taken <= 1 + this.#disturbances, `${host} has taken the end of ${run.run_id} ${taken} times`);
        assert.equal(said.type, `run.${run.status}`, `what ${host} was told of ${run.run_id}`);
      }
    }
    if (all.some(({ sent }) => sent > 1)) this.see("sent again");
  }

  /**
   * A run and its tasks together stay within the limit, and their shared rows are deleted with the last of them. A
   * `task_result` of a finished task gives its ending.
   */
  #checkTasks(runs: readonly RunFound[], logs: ReadonlyMap<number, readonly LoggedEvent[]>): void {
    const left = (table: string) => this.#query(`SELECT run_id FROM ${table} WHERE tenant_id IN (?, ?)`);
    assert.deepEqual([left("run_budgets"), left("budget_shares")], [[], []], "a budget that nobody spends is left");
    const tasks = new Map(runs.flatMap((run) => (run.asked.parent ? [[run.asked.parent.task_id, run]] : [])));
    if (tasks.size > 0) this.see("beside");
    for (const root of runs.filter(({ asked }) => asked.parent === undefined)) {
      const tree = runs.filter(({ run_id, asked }) => (asked.parent?.root_run_id ?? run_id) === root.run_id);
      const own = tree.flatMap((run) =>
        (logs.get(run.thread_key) ?? []).filter((event) => event.run === run.run_key % 2 ** 24),
      );
      const done = own.filter(
        ({ kind, extra }) => kind === "tool_call" && this.#effects.has(extra?.tool_call_id ?? ""),
      );
      const ids = new Set(done.map(({ extra }) => extra?.tool_call_id));
      assert.ok(ids.size <= treeCallsMax, `${root.run_id} and its tasks have called ${ids.size} times`);
      if (tree.length > 1 && ids.size + tree.length > treeCallsMax) this.see("a tree at its limit");
    }
    for (const { kind, content } of [...logs.values()].flat()) {
      const [, task_id, status, result] =
        (kind === "tool_result" && /^\{"task_id":"([0-9a-f]{16})","status":"(\w+)","result":(.*)\}$/s.exec(content)) ||
        [];
      const task = tasks.get(task_id ?? "");
      if (status === undefined || result === undefined) continue;
      assert.ok(task !== undefined, `task_result knows of ${task_id}, which is not there`);
      if (["pending", "running"].includes(status)) continue;
      const said = task.status === "dead" ? "failed" : task.status;
      assert.deepEqual(
        [status, JSON.parse(result)],
        [said, task.final ?? task.error],
        `the end of the task ${task_id}`,
      );
      this.see("a task's end");
    }
  }
}

/** True for the log of a task whose parent had no answer to its start: its model has read an error, and the task is stopped. */
function isOfFailedCall(log: readonly LoggedEvent[], all: readonly LoggedEvent[]): boolean {
  const call = log[0]?.content.split(" ").at(-1);
  return all.some(
    ({ kind, content, extra }) =>
      kind === "tool_result" &&
      extra?.tool_call_id === call &&
      content.startsWith("[tool error/transport_unavailable]"),
  );
}
