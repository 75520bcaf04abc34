import { evalsAddress } from "../../bus/address.ts";
import { orderedId } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { EvalOptions } from "../../bus/protocol/evals.ts";
import { toJsonText } from "../../bus/protocol/json-text.ts";
import type { Principal } from "../../bus/protocol/principal.ts";
import { requireScopes } from "../../governance/auth/scopes.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { type EvalRunRow, evalRunById } from "../../storage/tables/eval-runs.ts";
import type { HttpContext, LiveTurn } from "../context.ts";
import type { Exchange } from "../engines/exchange.ts";
import { admitStart } from "../streams/turns.ts";

// Starts runs of evaluations for requests, and waits for their ends.

/** How long a request waits for the end of its runs, unless `Prefer: wait` says otherwise (decision 144: 30 s, at most 60). */
const waitSeconds = { default: 30, max: 60 };
/** The polling interval, which grows from `first` to `longest`. */
const lookMs = { first: 20, longest: 250 };
const runIdPattern = /^[0-9a-f]{32}$/;

/** The agent that a request evaluates. */
export interface EvaluatedSpec {
  /** The name of a manifest, or a manifest itself. */
  readonly manifest?: unknown;
  readonly manifest_version?: number | null;
}

/** Starts a run and returns its id. */
export async function startEvalRun(
  dataset_name: string,
  { manifest, manifest_version = null }: EvaluatedSpec,
  options: EvalOptions,
  principal: Principal,
  context: HttpContext,
): Promise<string> {
  // Decision 202: a manifest in a request is written by its caller, like a stored one.
  if (typeof manifest !== "string") requireScopes(principal, ["manifests:write"]);
  admitStart(context);
  const id = orderedId(context.env);
  await context.bus.ask(evalsAddress(principal.tenant_id, id), "start", {
    principal,
    dataset_name,
    manifest: typeof manifest === "string" ? manifest : "",
    version: manifest_version,
    body: typeof manifest === "string" ? null : toJsonText(manifest),
    options,
  });
  return id;
}

/** Resolves when all runs have ended or the wait is over, and when the client disconnects. */
export async function evalRunsEnded(
  { tenant_id }: Principal,
  ids: readonly string[],
  seconds: number,
  exchange: Exchange,
  context: HttpContext,
): Promise<void> {
  const { env, store } = context;
  const tenant = store.tenant(tenant_id);
  const until = env.monotonic() + seconds * 1_000;
  const open = new Set(ids);
  let left = false;
  exchange.onAborted(() => {
    left = true;
  });
  // Registers as a live turn, so that shutdown waits for this answer.
  const waiting: LiveTurn = { slot: -1, lost() {}, fail() {} };
  context.turns.add(waiting);
  try {
    for (let pauseMs = lookMs.first; !left; pauseMs = Math.min(2 * pauseMs, lookMs.longest)) {
      for (const id of open) if ((await evalRunById(tenant, id))?.status !== "in_progress") open.delete(id);
      if (open.size === 0 || env.monotonic() >= until || context.closing()) return;
      await new Promise<void>((resolve) => void env.timer(pauseMs, resolve));
    }
  } finally {
    context.turns.delete(waiting);
  }
}

/** Returns the seconds that a request waits for the end of its runs. */
export function secondsOf({ head }: Exchange): number {
  const [, asked] = /(?:^|[,;\s])wait=(\d{1,9})(?:$|[,;\s])/.exec(head.headers.prefer ?? "") ?? [];
  return asked === undefined ? waitSeconds.default : Math.min(Number(asked), waitSeconds.max);
}

/** Returns the options of a request with their defaults. */
export function optionsOf(body: Partial<EvalOptions>): EvalOptions {
  const {
    deterministic_judge = false,
    use_llm_judge = false,
    judge_model = null,
    mock = false,
    concurrency = 8,
  } = body;
  return { deterministic_judge, use_llm_judge, judge_model, mock, concurrency };
}

/** Returns a run of the tenant. Refuses with not_found. */
export async function evalRunNamed(store: TenantStore, id: string): Promise<EvalRunRow> {
  const run = runIdPattern.test(id) ? await evalRunById(store, id) : undefined;
  if (run === undefined) throw new SvcError("not_found");
  return run;
}
