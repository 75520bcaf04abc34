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

/** Calls made to one route before the next is tried. */
const attemptsMax = 3;
const backoffMs = 500;
const backoffMaxMs = 8_000;
/** A provider that asks for a longer pause is passed over. */
const patienceMs = 30_000;

/** Told of what happens to a call, for metrics. */
export interface CallObserver {
  finished(route: RouteTarget, outcome: "ok" | "error" | "aborted", seconds: number): void;
  retried(route: RouteTarget, status: number): void;
  timedOut(route: RouteTarget): void;
  switched(from: ModelRoute, to: ModelRoute): void;
}

/** What a call of the model needs: where it may go and what is sent there. */
export interface CallPlan {
  /** The model of the turn, then its fallbacks in order. Never empty. */
  readonly routes: readonly ModelRoute[];
  /** The provider of a route; throws SvcError when it has no credential. */
  provider(route: ModelRoute): ModelProvider;
  /** The request as it is sent to a route. */
  request(route: ModelRoute): ModelRequest;
  readonly events: ModelEvents;
  readonly cancellation: Cancellation;
  readonly observer: CallObserver;
  /** Whether the call was ended on purpose: then it is not made again. */
  isCut(): boolean;
  /** What has to be there before each try but the first. What it rejects with ends the call. */
  again?(): Promise<void>;
  /** Whether a prompt that is too long for one model is for the caller to shorten, and not for the next model to be asked with. */
  readonly mendsOverflow?: boolean;
  /** Told of the call under way, so that reading can be paused; null when none is. */
  onCall(call: ModelCall | null): void;
}

/** What the model answered, and the route that it was reached by. */
export interface CallResult {
  readonly reply: ModelReply;
  readonly route: ModelRoute;
}

/**
 * Calls the model: again when that may help, then its fallbacks. As soon as a word was said there is no second try, for the
 * client has read it. Rejects with ModelFailure of the last route that was called, or with the SvcError of a missing credential
 * when that is of the first route; a fallback without one is passed over.
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

/** Something that a provider was asked. */
interface StartedCall {
  readonly reply: Promise<unknown>;
  abort(): void;
}

/** What a call of one route needs. */
export interface RouteCallPlan<Call> extends Pick<CallPlan, "cancellation" | "observer" | "isCut" | "again"> {
  start(): Call;
  onCall(call: Call | null): void;
}

/** Calls one route until it answers or another try is of no use. Rejects as `callModel` does. */
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

/** Doubling from half a second, with a quarter of jitter either way so that callers do not come back together. */
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
