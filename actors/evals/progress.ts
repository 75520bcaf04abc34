import { SvcError } from "../../bus/errors.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { refreshAccess } from "../../governance/auth/fresh-access.ts";
import { isRevoked } from "../../governance/auth/revoked.ts";
import { readRubric, scoreByRules } from "../../governance/evals/rubric.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import {
  type EvalRunRow,
  type EvalScoreRow,
  evalRunById,
  openItems,
  scoreItemOps,
} from "../../storage/tables/eval-runs.ts";
import type { ActorContext } from "../runtime/define.ts";
import type { EvalsDeps } from "./deps.ts";
import { endEvaluation } from "./end.ts";
import { evalPrincipal } from "./eval-principal.ts";
import { abortItem, type ItemEnd, type ItemRun, itemRunId, itemStanding, startItem } from "./item-run.ts";
import { judgeAgent, judgeQuestion } from "./judge.ts";
import { errorScore, judgedScore, ruleScore, type Scored } from "./score.ts";

// The progress of one evaluation. Items start in their order, as many at once as the run allows. Each is a durable run whose id is
// derived from the item, so this state is a cache: after a crash the next process finds the runs that exist and the scores that
// are stored. A score is written once, by a guarded statement.

/** Items per page of the queue. */
const pageRows = 64;
/** Max time of a run of an item. A run that waits for a person would otherwise delay the evaluation for days. */
const itemMsMax = 900_000;

/** An item between its start and its score. */
interface LiveItem {
  readonly item: EvalScoreRow;
  part: ItemRun["part"];
  /** The end of the first part, while the judge works. */
  answer: ItemEnd | null;
  /** True if no durable run of this part can exist, so that the store need not be asked. */
  isFresh: boolean;
  /** True if the store has the durable run. */
  isAccepted: boolean;
  /** True while the item counts against the concurrency. */
  isRunning: boolean;
  isSettling: boolean;
  /** True if another end was reported while the item was settled. */
  settlesAgain: boolean;
  isLate: boolean;
}

/** Starts, scores and ends the items of one evaluation. */
export class Progress {
  readonly #store: TenantStore;
  readonly #context: ActorContext<EvalsDeps>;
  readonly #run: EvalRunRow;
  readonly #isNew: boolean;
  readonly #live = new Map<string, LiveItem>();
  #queue: EvalScoreRow[] = [];
  #after = -1;
  #isExhausted = false;
  #isEnded = false;
  #running = 0;
  #loading: Promise<void> | null = null;
  #ending: Promise<void> | null = null;

  /** `isNew` is true if no other process can have started an item. */
  constructor(store: TenantStore, run: EvalRunRow, isNew: boolean, context: ActorContext<EvalsDeps>) {
    this.#store = store;
    this.#isNew = isNew;
    this.#run = run;
    this.#context = context;
  }

  get isIdle(): boolean {
    return this.#live.size === 0;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Starts items up to the concurrency of the run, and ends the run after its last item. */
  async fill(): Promise<void> {
    const { concurrency } = this.#run.asked;
    for (;;) {
      const starts: Promise<void>[] = [];
      while (!this.#isEnded && this.#running < concurrency) {
        // Counted before the wait, because several messages may fill at once.
        this.#running++;
        const item = await this.#next();
        if (item === null) {
          this.#running--;
          break;
        }
        const live = newItem(item, this.#isNew);
        this.#live.set(item.item_id, live);
        starts.push(this.#settle(live));
      }
      if (starts.length === 0) break;
      // An item may end at once: it has ended before a crash, or needs no model.
      await Promise.all(starts);
    }
    if (this.#isExhausted && this.#queue.length === 0 && this.#live.size === 0) await this.#end();
  }

  /** A durable run of an item has ended. */
  async ended(itemId: string): Promise<void> {
    const live = this.#live.get(itemId);
    if (live === undefined) return;
    // The next item starts while this one is scored.
    this.#free(live);
    await Promise.all([this.#settle(live), this.fill()]);
    await this.fill();
  }

  /** Looks at every live item: starts those that could not start, and finds ends whose message was lost. */
  async look(): Promise<void> {
    await refreshAccess(this.#principal(), this.#context.deps, this.#context.env.now());
    const principal = this.#principal();
    if (isRevoked(principal, this.#context.deps, this.#context.env.now())) return this.stop("principal_revoked");
    await Promise.all([...this.#live.values()].map((live) => this.#settle(live)));
    await this.fill();
  }

  /** Ends the run as failed, and aborts its items. */
  async stop(error: string): Promise<void> {
    const { id, asked, seed } = this.#run;
    const open = await openItems(this.#store, id, -1, 4 * asked.concurrency);
    await endEvaluation(this.#store, id, { status: "failed", error }, this.#context);
    this.#isEnded = true;
    this.#live.clear();
    const parts = open.flatMap(({ item_id }) =>
      (["answer", "judge"] as const).map((part) => ({ item_id, part, run_id: itemRunId(seed, item_id, part) })),
    );
    await Promise.all(
      parts.map(async (part) => {
        if ((await itemStanding(this.#store, part.run_id)).kind === "open") await this.#abort(part);
      }),
    );
  }

  async #next(): Promise<EvalScoreRow | null> {
    while (this.#queue.length === 0 && !this.#isExhausted) {
      this.#loading ??= this.#load().finally(() => {
        this.#loading = null;
      });
      await this.#loading;
    }
    return this.#queue.shift() ?? null;
  }

  async #load(): Promise<void> {
    const page = await openItems(this.#store, this.#run.id, this.#after, pageRows);
    this.#after = page.at(-1)?.position ?? this.#after;
    this.#isExhausted = page.length < pageRows;
    this.#queue.push(...page.filter(({ item_id }) => !this.#live.has(item_id)));
  }

  /** Moves an item on as far as it can go now. A failure of the store leaves it to the next look. */
  async #settle(live: LiveItem): Promise<void> {
    live.settlesAgain = true;
    if (live.isSettling) return;
    live.isSettling = true;
    try {
      while (live.settlesAgain && !this.#isEnded) {
        live.settlesAgain = false;
        await this.#step(live);
      }
    } catch (error) {
      await this.#failed(live, error);
    } finally {
      live.isSettling = false;
    }
  }

  async #step(live: LiveItem): Promise<void> {
    const { asked, seed } = this.#run;
    const { item } = live;
    if (asked.mock) {
      const read = readRubric(rubricOf(item));
      const end = { transcript: read.rubric.mock, error: null, duration_ms: 0, usage: null };
      return this.#record(live, ruleScore(item, end, scoreByRules(read, end.transcript)));
    }
    const run_id = itemRunId(seed, item.item_id, live.part);
    if (live.isFresh) {
      live.isFresh = false;
      return this.#start(live, run_id);
    }
    const standing = await itemStanding(this.#store, run_id);
    if (standing.kind === "ended") {
      this.#free(live);
      return live.part === "answer" ? this.#answered(live, standing.end) : this.#judged(live, standing.end);
    }
    if (standing.kind === "open") {
      live.isAccepted = true;
      if (this.#context.env.now() - standing.accepted_at <= itemMsMax || live.isLate) return;
      live.isLate = true;
      return this.#abort({ item_id: item.item_id, part: live.part, run_id });
    }
    if (!live.isAccepted) return this.#start(live, run_id);
    // A client has deleted the thread.
    return this.#record(live, errorScore(item, "thread_deleted", live.answer));
  }

  async #start(live: LiveItem, run_id: string): Promise<void> {
    const { item, part, answer } = live;
    const principal = this.#principal();
    const of = { eval_run_id: this.#run.id, item_id: item.item_id, part, run_id, principal };
    const { candidate_manifest: manifest, body, asked } = this.#run;
    const run: ItemRun =
      part === "answer"
        ? { ...of, manifest, body, text: item.user_input, allow_effects: asked.allow_effects }
        : { ...of, ...(await this.#judge(item, answer as ItemEnd)), allow_effects: false };
    await startItem(run, this.#context.bus);
    live.isAccepted = true;
    // The run was stopped while the item started.
    if (this.#isEnded) await this.#abort({ item_id: item.item_id, part, run_id });
  }

  /** Returns the agent and the question of the judge. */
  async #judge(item: EvalScoreRow, { transcript }: ItemEnd): Promise<Pick<ItemRun, "manifest" | "body" | "text">> {
    const { manifests } = this.#context.deps;
    const store = this.#store;
    const { rubric } = readRubric(rubricOf(item));
    const named = rubric.judge_model ?? this.#run.asked.judge_model;
    const model = named ?? (await manifests.kept(store, this.#run.body))?.model.route.id;
    if (model === undefined) throw new SvcError("unknown_manifest", { subject: this.#run.candidate_manifest });
    const agent = await judgeAgent(model, store.tenantId, manifests);
    const kept = manifests.keep(store, agent);
    if (kept.ops.length > 0) await store.write(kept.ops);
    kept.kept();
    const text = judgeQuestion(item.user_input, transcript.answer, transcript.tool_calls, rubric);
    return { manifest: agent.name, body: kept.digest, text };
  }

  async #answered(live: LiveItem, end: ItemEnd): Promise<void> {
    const { item } = live;
    const { asked } = this.#run;
    if (end.error !== null) return this.#record(live, errorScore(item, live.isLate ? "timed_out" : end.error, end));
    const read = readRubric(rubricOf(item));
    const verdict = scoreByRules(read, end.transcript);
    const isJudged = !asked.deterministic_judge && (asked.use_llm_judge || read.rubric.llm_judge);
    if (!verdict.pass || !isJudged) return this.#record(live, ruleScore(item, end, verdict));
    Object.assign(live, {
      part: "judge",
      answer: end,
      isFresh: this.#isNew,
      isAccepted: false,
      isLate: false,
      isRunning: true,
    });
    this.#running++;
    live.settlesAgain = true;
  }

  async #judged(live: LiveItem, end: ItemEnd): Promise<void> {
    const { item, answer } = live;
    const read = readRubric(rubricOf(item));
    const error = live.isLate ? "timed_out" : end.error;
    await this.#record(live, judgedScore(item, answer as ItemEnd, { ...end, error }, read));
  }

  /** Stores the score. A conflict means that the score exists or the run has ended. */
  async #record(live: LiveItem, { outcome, score, added }: Scored): Promise<void> {
    const { item } = live;
    const { deps } = this.#context;
    try {
      await this.#store.write(scoreItemOps(this.#store, this.#run.id, item.position, { outcome, score, added }));
      deps.metrics.count("svc_eval_items_total", { outcome });
    } catch (error) {
      if (!(error instanceof SvcError && error.code === "conflict")) throw error;
      const row = await evalRunById(this.#store, this.#run.id);
      if (row?.status !== "in_progress") this.#isEnded = true;
    }
    this.#free(live);
    this.#live.delete(item.item_id);
  }

  /** A transient failure leaves the item to the next look; a refusal is its score. */
  async #failed(live: LiveItem, thrown: unknown): Promise<void> {
    const { item } = live;
    const refusal = SvcError.from(thrown);
    const { id } = this.#run;
    if (refusal.code === "internal_error")
      this.#context.deps.log.error({ err: thrown, eval_run_id: id }, "an item of an evaluation failed");
    if (refusal.retryable) return;
    const scored =
      live.answer === null
        ? errorScore(item, refusal.message, null)
        : judgedScore(item, live.answer, { ...noEnd, error: refusal.message }, readRubric(rubricOf(item)));
    await this.#record(live, scored).catch((err: unknown) =>
      this.#context.deps.log.warn({ err, eval_run_id: id }, "a score could not be stored; it is tried again"),
    );
  }

  async #end(): Promise<void> {
    if (this.#isEnded) return;
    this.#ending ??= this.#endOnce().finally(() => {
      this.#ending = null;
    });
    await this.#ending;
  }

  async #endOnce(): Promise<void> {
    const [left] = await openItems(this.#store, this.#run.id, -1, 1);
    if (left !== undefined) {
      // Another process began this item; the next look takes it.
      this.#after = -1;
      this.#isExhausted = false;
      return;
    }
    await endEvaluation(this.#store, this.#run.id, { status: "completed", error: "" }, this.#context);
    this.#isEnded = true;
  }

  #free(live: LiveItem): void {
    if (!live.isRunning) return;
    live.isRunning = false;
    this.#running--;
  }

  #principal(): Principal {
    const { deps, env } = this.#context;
    return evalPrincipal(this.#store.tenantId, this.#run.asked.owner, deps, env.now());
  }

  async #abort(part: Pick<ItemRun, "item_id" | "part" | "run_id">): Promise<void> {
    const { bus, deps } = this.#context;
    try {
      await abortItem(this.#store.tenantId, { eval_run_id: this.#run.id, ...part }, bus);
    } catch (err) {
      deps.log.warn({ err, eval_run_id: this.#run.id }, "an item of an evaluation could not be stopped");
    }
  }
}

const noEnd = { transcript: { answer: "", tool_calls: [], tool_errors: 0 }, duration_ms: 0, usage: null };

function newItem(item: EvalScoreRow, isFresh: boolean): LiveItem {
  const flags = { isFresh, isAccepted: false, isRunning: true, isSettling: false, settlesAgain: false, isLate: false };
  return { item, part: "answer", answer: null, ...flags };
}

function rubricOf({ rubric }: EvalScoreRow): Readonly<Record<string, unknown>> {
  return JSON.parse(rubric) as Readonly<Record<string, unknown>>;
}
