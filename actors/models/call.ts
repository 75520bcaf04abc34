import type { Env } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import type { ModelRoute, RouteTarget } from "../../manifests/registries.ts";
import type { Cancellation } from "../runtime/cancellation.ts";
import {
  type ModelCall,
  type ModelEvents,
  ModelFailure,
  type ModelProvider,
  type ModelReply,
  type ModelRequest,
} from "./provider.ts";

/** Max attempts on one route before the next is tried. */
const attemptsMax = 3;
const backoffMs = 500;
const backoffMaxMs = 8_000;
/** A provider that asks for a longer pause is skipped. */
const patienceMs = 30_000;

/** Receives the events of a call, for metrics. */
export interface CallObserver {
  finished(route: RouteTarget, outcome: "ok" | "error" | "aborted", seconds: number): void;
  retried(route: RouteTarget, status: number): void;
  timedOut(route: RouteTarget): void;
  switched(from: ModelRoute, to: ModelRoute): void;
}

/** The parameters of a model call. */
export interface CallPlan {
  /** The model of the turn, then its fallbacks. Never empty. */
  readonly routes: readonly ModelRoute[];
  /** Returns the provider of a route; throws SvcError if it has no credential. */
  provider(route: ModelRoute): ModelProvider;
  /** Returns the request for a route. */
  request(route: ModelRoute): ModelRequest;
  readonly events: ModelEvents;
  readonly cancellation: Cancellation;
  readonly observer: CallObserver;
  /** True if the call was ended on purpose; then it is not retried. */
  isCut(): boolean;
  /** Awaited before each attempt after the first. A rejection ends the call. */
  again?(): Promise<void>;
  /** True if the caller shortens a prompt that exceeds the context; then no fallback is tried for it. */
  readonly mendsOverflow?: boolean;
  /** Receives the call in progress, to pause its reading; null if there is none. */
  onCall(call: ModelCall | null): void;
}

/** The reply, and the route that produced it. */
export interface CallResult {
  readonly reply: ModelReply;
  readonly route: ModelRoute;
}

/**
 * Calls the model with retries, then its fallbacks. There is no retry after the first text, because the client has already
 * received it. Rejects with the ModelFailure of the last route called. A missing credential of the first route rejects with
 * SvcError; a fallback without one is skipped.
 */
export async function callModel(plan: CallPlan, env: Env): Promise<CallResult> {
  const { cancellation, observer } = plan;
  let failure: ModelFailure | null = null;
  let previous: ModelRoute | null = null;
  for (const route of plan.routes) {
    if (failure !== null) {
      await plan.again?.();
      if (isStopped(plan)) throw failure;
    }
    try {
      const provider = plan.provider(route);
      if (previous) observer.switched(previous, route);
      previous = route;
      const start = (): ModelCall => provider.start(plan.request(route), plan.events);
      const { isCut, onCall, again } = plan;
      const asked = { start, cancellation, observer, isCut, onCall, ...(again && { again }) };
      return { reply: await callRoute(asked, route, env), route };
    } catch (error) {
      if (error instanceof ModelFailure) failure = error;
      else if (failure === null || !(error instanceof SvcError)) throw error;
      if (failure.partial !== "" || isStopped(plan)) throw failure;
      if (failure.overflow && plan.mendsOverflow) throw failure;
    }
  }
  throw failure ?? new ModelFailure("no model to call");
}

/** A request to a provider. */
interface StartedCall {
  readonly reply: Promise<unknown>;
  abort(): void;
}

/** The parameters of a call on one route. */
export interface RouteCallPlan<Call> extends Pick<CallPlan, "cancellation" | "observer" | "isCut" | "again"> {
  start(): Call;
  onCall(call: Call | null): void;
}

/** Calls one route until it succeeds or a retry is pointless. Rejects like `callModel`. */
export async function callRoute<Call extends StartedCall>(
  plan: RouteCallPlan<Call>,
  route: RouteTarget,
  env: Env,
): Promise<Awaited<Call["reply"]>> {
  const { cancellation, observer } = plan;
  for (let tries = 1; ; tries++) {
    const startedAt = env.monotonic();
    const call = plan.start();
    const stopListening = cancellation.onCancel(() => call.abort());
    plan.onCall(call);
    let failure: ModelFailure;
    try {
      const reply = (await call.reply) as Awaited<Call["reply"]>;
      observer.finished(route, "ok", (env.monotonic() - startedAt) / 1000);
      return reply;
    } catch (error) {
      observer.finished(route, isStopped(plan) ? "aborted" : "error", (env.monotonic() - startedAt) / 1000);
      if (!(error instanceof ModelFailure)) throw error;
      if (error.timedOut) observer.timedOut(route);
      failure = error;
    } finally {
      plan.onCall(null);
      stopListening();
    }
    const again = failure.retryable && failure.partial === "" && tries < attemptsMax && !isStopped(plan);
    const pauseMs = failure.retryAfterMs ?? backoff(tries, env.random());
    if (!again || pauseMs > patienceMs) throw failure;
    observer.retried(route, failure.status);
    await pause(pauseMs, cancellation, env);
    if (!cancellation.cancelled) await plan.again?.();
    if (cancellation.cancelled) throw failure;
  }
}

function isStopped({ cancellation, isCut }: Pick<CallPlan, "cancellation" | "isCut">): boolean {
  return cancellation.cancelled || isCut();
}

/** Doubles from half a second, with a jitter of a quarter, so that clients do not retry simultaneously. */
function backoff(attempt: number, random: number): number {
  return Math.min(backoffMaxMs, backoffMs * 2 ** (attempt - 1)) * (0.75 + random / 2);
}

function pause(ms: number, cancellation: Cancellation, env: Env): Promise<void> {
  return new Promise((resolve) => {
    const timer = env.timer(ms, () => {
      stopListening();
      resolve();
    });
    const stopListening = cancellation.onCancel(() => {
      timer.cancel();
      resolve();
    });
  });
}
