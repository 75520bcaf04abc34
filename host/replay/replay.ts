import { isDeepStrictEqual } from "node:util";
import { thinkingFor } from "../../actors/run/intake/admission.ts";
import { resumedSpec } from "../../actors/run/lifecycle/resumed-spec.ts";
import { Run } from "../../actors/run/lifecycle/run.ts";
import type { RunSpec, RunStart } from "../../actors/run/spec/run-spec.ts";
import type { PatternDeps } from "../../actors/run/steps/pattern.ts";
import { threadAddress } from "../../bus/address.ts";
import type { Env } from "../../bus/env.ts";
import { entryPointOf } from "../../bus/frames/entry-points.ts";
import { silentOutput } from "../../bus/frames/silent-output.ts";
import type { AbortReason } from "../../bus/protocol/run.ts";
import type { Manifest } from "../../manifests/schema/manifest.ts";
import { mayDelegate } from "../../manifests/sections/delegation.ts";
import type { ObjectSource } from "../../manifests/sources/texts.ts";
import type { Store, TenantStore } from "../../storage/store/store.ts";
import type { CallFacts } from "../../storage/tables/model-calls.ts";
import type { RunEnding, RunRow } from "../../storage/tables/runs.ts";
import type { Deployment } from "../deployment.ts";
import { Aliases } from "./aliases.ts";
import { compareValues, type Difference, type Divergence } from "./difference.ts";
import { RecordedModel } from "./recorded-model.ts";
import { type RecordedRun, readRecordedRun } from "./recorded-run.ts";
import { recordedTools } from "./recorded-tools.ts";
import { replayDeps } from "./replay-deps.ts";
import { ReplayEnv } from "./replay-env.ts";
import { ReplayLog } from "./replay-log.ts";

// Replays a run with the code that runs agents. The run spec comes from its row and the log at its start; model replies and tool
// results come from the log. The replay compares its events with the log, and its model requests with the records of calls.

/** A replayed model call. */
export interface ReplayedCall extends Pick<CallFacts, "purpose" | "agent" | "step" | "route"> {
  readonly n: number;
  readonly differences: readonly Difference[];
}

/** The result of a replay. */
export interface Replay {
  readonly run_id: string;
  readonly status: RunRow["status"];
  readonly manifest: string;
  readonly calls: readonly ReplayedCall[];
  /** Number of recorded calls. */
  readonly calls_of: number;
  /** Events after the run's start: matched ones, and all. */
  readonly events: number;
  readonly events_of: number;
  /** The first difference; null if the replay equals the record. */
  readonly divergence: Divergence | null;
  /** Parts that were not compared, in words. */
  readonly notes: readonly string[];
}

/** The run to replay. */
export interface ReplayAsked {
  readonly tenantId: string;
  readonly runId: string;
  /** Replaces the run's manifest. Then the differences of each request are reported, and none ends the replay. */
  readonly manifest: Manifest | null;
}

/** Replays a run. Refuses with NotOnRecord, invalid_manifest or unknown_manifest; fails as the store does. */
export async function replayRun(
  deployment: Deployment,
  store: Store,
  objects: ObjectSource,
  real: Env,
  { tenantId, runId, manifest }: ReplayAsked,
): Promise<Replay> {
  const tenant = store.tenant(tenantId);
  const recorded = await readRecordedRun(tenant, runId);
  const env = new ReplayEnv(real, recorded.row.started_at);
  const deps = replayDeps(deployment, env, store, objects, manifest);
  try {
    return await new Replaying(recorded, tenant, deps, env, manifest).run();
  } finally {
    deps.tokens.close();
  }
}

/** A replay in progress. */
class Replaying {
  readonly #recorded: RecordedRun;
  readonly #store: TenantStore;
  readonly #deps: PatternDeps;
  readonly #env: ReplayEnv;
  /** Null for the run's own manifest. */
  readonly #manifest: Manifest | null;
  readonly #calls: ReplayedCall[] = [];
  readonly #notes: string[] = [];
  readonly #over = Promise.withResolvers<void>();
  #divergence: Divergence | null = null;
  #run: Run | null = null;
  #delegates = false;

  constructor(recorded: RecordedRun, store: TenantStore, deps: PatternDeps, env: ReplayEnv, manifest: Manifest | null) {
    this.#recorded = recorded;
    this.#store = store;
    this.#deps = deps;
    this.#env = env;
    this.#manifest = manifest;
  }

  async run(): Promise<Replay> {
    const { row, calls, log } = this.#recorded;
    if (calls.length === 0) this.#notes.push("no model call of it is on record");
    else await this.#make();
    return {
      run_id: row.run_id,
      status: row.status,
      manifest: this.#manifest?.metadata.name ?? row.manifest,
      calls: this.#calls,
      calls_of: calls.length,
      events: log.found,
      events_of: log.size,
      divergence: this.#divergence,
      notes: this.#notes,
    };
  }

  async #make(): Promise<void> {
    const { row, log, thread } = this.#recorded;
    const aliases = new Aliases();
    const tools = recordedTools(log, aliases, {
      unanswered: (id) => {
        if (row.ended_at === null) this.#stop("it goes on behind a call that has no result yet");
        else this.#differs({ what: `the result of ${id}`, expected: null, found: "a call that has to have one" }, null);
      },
      withImages: () => this.#stop("a tool has made images, and what follows is not made again"),
    });
    const model = new RecordedModel(this.#recorded, this.#store, this.#deps.files, aliases, {
      asked: ({ n, facts }, found) => {
        const { purpose, agent, step, route } = facts;
        const differences = found.filter((each) => !this.#isElsewhere(each));
        this.#calls.push({ n, purpose, agent, step, route, differences });
        this.#env.pass(facts.ended - facts.started);
        const [first] = differences;
        if (first === undefined) return true;
        this.#differs(first, null, n);
        return this.#manifest !== null;
      },
      beyond: () => this.#beyond(),
      unanswered: ({ n }, why) => this.#stop(`call ${n}: ${why}`),
      stopped: () => this.#run?.abort(stoppedBy(row)),
    });
    const { models } = this.#deps;
    const deps: PatternDeps = {
      ...this.#deps,
      toolSources: [tools],
      // No vectors are computed: a replay connects to nothing.
      models: { ...models, provider: () => model, memoryEmbedding: null, embeddings: new Map() },
    };
    const start = await this.#start(deps);
    const { session, toolsRetrieval } = start.spec.agent;
    const chooses = session.kind === "semantic" || toolsRetrieval?.model === null;
    if ((chooses && models.memoryEmbedding !== null) || (toolsRetrieval?.model ?? null) !== null)
      return this.#stop("what it was shown was chosen by vectors, which are not on record");
    const eventLog = new ReplayLog(this.#recorded, threadAddress(this.#store.tenantId, thread.suffix).key, aliases, {
      differs: (difference, seq) => this.#differs(difference, seq),
      exhausted: () => this.#stop("it goes on: this is how far it has come"),
      hint: (interrupts) => this.#run?.steered({ number: eventLog.hints, interrupts }),
      ended: (ending) => this.#ended(ending, model),
    });
    this.#run = new Run(start, eventLog, silentOutput, deps);
    eventLog.hintIfDue();
    await Promise.race([this.#over.promise, this.#run.ended]);
  }

  /** Returns the start of the run as it was. */
  async #start(deps: PatternDeps): Promise<RunStart> {
    const { row, thread, begunSeq, leafSeq, calls } = this.#recorded;
    const { suffix, thread_key } = thread;
    const place = { tenant_id: this.#store.tenantId, suffix, run_id: row.run_id };
    const { bytes } = thread;
    const opened = {
      ...{ thread_key, next_seq: begunSeq, leaf_seq: leafSeq, bytes, thinking_level: null, queued: null },
      // A replay may use any version of the manifest.
      pinned: false,
    };
    const other = this.#manifest?.metadata.name;
    const { durable: _durable, ...rest } = row.asked;
    const own = other === undefined ? row : { ...row, manifest: other, asked: rest };
    const start = await resumedSpec(
      { ...own, status: "accepted", spent: null },
      opened,
      [],
      place,
      null,
      { store: this.#store, makeRoom: () => null, isEnding: false },
      deps,
    );
    const { spec: asked } = start;
    this.#delegates = mayDelegate(asked.agent);
    const told = calls.find(({ facts }) => facts.purpose === "step")?.facts.parameters.thinking ?? null;
    const level = told?.level ?? "off";
    // The thread's thinking level at that time is recorded only with the call.
    const thinking =
      this.#manifest !== null || isDeepStrictEqual(asked.thinking, told)
        ? asked.thinking
        : thinkingFor(asked.agent, level);
    if (row.asked.durable?.body === undefined && this.#manifest === null && asked.agent.digest !== row.manifest_digest)
      this.#notes.push(`the manifest ${row.manifest} is another one now, and the run's own was not kept`);
    // A replayed task has no parent that shares its budget.
    const bounds = this.#manifest === null ? {} : ofManifest(asked);
    return { ...start, spec: { ...asked, thinking, parent: null, isShared: false, ...bounds } };
  }

  /** True if the difference depends on something that is not recorded with the run; then adds a note. */
  #isElsewhere({ what }: Difference): boolean {
    const { row } = this.#recorded;
    const isLent = what === "max_tokens" && (row.asked.parent !== undefined || this.#delegates);
    const isWish = what.startsWith("messages") && entryPointOf(row.asked.surface).work === "compaction";
    if (!isLent && !isWish) return false;
    const note = isLent ? "what other agents have left it of its limits" : "what somebody has asked of the summary";
    if (!this.#notes.includes(note)) this.#notes.push(note);
    return true;
  }

  #differs({ what, expected, found }: Difference, seq: number | null, call = this.#calls.at(-1)?.n ?? 0): void {
    this.#divergence ??= { call, seq, what, expected, found };
    if (this.#manifest === null) this.#over.resolve();
  }

  /** Ends the replay with a note. */
  #stop(why: string): void {
    this.#notes.push(why);
    this.#over.resolve();
  }

  /** Handles one model call more than is recorded. */
  #beyond(): void {
    const { row } = this.#recorded;
    if (row.ended_at === null) {
      this.#stop("it goes on: this is how far it has come");
      return;
    }
    const reason = row.result?.error ?? null;
    if (reason === "aborted" || reason === "interrupted") {
      this.#run?.abort(stoppedBy(row));
      return;
    }
    if (row.result?.stop_reason === "unknown" && this.#manifest === null) {
      this.#stop("a limit or a failure has ended it here, and that is not made again");
      return;
    }
    this.#differs({ what: "a model call", expected: null, found: "one more than is on record" }, null);
    this.#over.resolve();
  }

  #ended({ status, stop_reason, error }: RunEnding, { left }: RecordedModel): void {
    const { row } = this.#recorded;
    const more = left.filter(({ facts }) => facts.purpose === "step" || facts.purpose === "summary");
    const [next] = more;
    if (next !== undefined)
      this.#differs({ what: "a model call", expected: `call ${next.n}`, found: "the end of the run" }, null);
    if (left.length > more.length)
      this.#notes.push(`${left.length - more.length} calls of controls are not made again`);
    // If the run's process died, recovery wrote its end.
    if (row.ended_at !== null && row.result?.error !== "interrupted") {
      // Retries of steps are not replayed, so `dead` compares as `failed`.
      const was = {
        status: row.status === "dead" ? "failed" : row.status,
        stop_reason: row.result?.stop_reason,
        error: row.result?.error,
      };
      for (const difference of compareValues("the end of the run", was, { status, stop_reason, error }))
        this.#differs(difference, null);
    }
    this.#over.resolve();
  }
}

/** Returns the values that a run takes from its manifest by default. */
function ofManifest({ agent: { model } }: RunSpec): Pick<RunSpec, "routes" | "temperature" | "max_tokens"> {
  return { routes: [model.route, ...model.fallbacks], temperature: model.temperature, max_tokens: model.max_tokens };
}

function stoppedBy({ result }: RunRow): AbortReason {
  return result?.error === "interrupted" ? "shutdown" : "client";
}
