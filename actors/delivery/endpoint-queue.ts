import type { Env, Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { attributeNames, spanNames } from "../../governance/tracing/conventions.ts";
import type { OpenSpan } from "../../governance/tracing/tracer.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { backOffMs, longestBackOffMs } from "../../storage/tables/back-off.ts";
import {
  claimDeliveries,
  type DeliveryRow,
  endDeliveryOp,
  giveUpSome,
  nextDueMs,
  putOffDeliveryOp,
} from "../../storage/tables/deliveries.ts";
import { durableRunById } from "../../storage/tables/durable-runs.ts";
import { announcements, isPushEndpoint } from "../../storage/tables/push-outbox.ts";
import { announcementLane } from "./announcement-lane.ts";
import type { AttemptFailure } from "./attempt.ts";
import type { DeliveryDeps } from "./deps.ts";
import type { Attempted, Lane, LaneContext } from "./lane.ts";
import { isOutboxEndpoint } from "./outbox-kind.ts";
import { outboxLane } from "./outbox-lane.ts";
import { pushLane } from "./push-lane.ts";
import { skillUpdateType } from "./skill-updates.ts";
import { webhookLane } from "./webhook-lane.ts";

/** Max concurrent attempts per queue. A slow endpoint delays only its own queue. */
const attemptsMax = 16;
/** A queue sets a timer for deliveries that are due within this time; a periodic task wakes it for later ones. */
export const aheadMs = 90_000;
/** A claim lasts this much longer than its attempt, to record the outcome. */
const claimMarginMs = 30_000;
/** Pause after the store rejected a statement. */
const storePauseMs = 5_000;

/** The environment of a queue. */
export interface EndpointQueueContext {
  readonly env: Env;
  readonly deps: DeliveryDeps;
  readonly tenantId: string;
  readonly endpointId: string;
  /** Makes the actor call `look` soon. */
  readonly wake: () => void;
  /** Makes the actor of another endpoint of the tenant look. */
  readonly wakeOther: (endpointId: string) => void;
}

/**
 * Sends the deliveries of one tenant to one endpoint: claims due ones, sends a bounded number concurrently, and reschedules
 * failed ones. The lane of the endpoint knows how to send.
 */
export class EndpointQueue {
  readonly #context: EndpointQueueContext;
  readonly #store: TenantStore;
  /** Attempts in progress. */
  #running = 0;
  /** Slots that the queue holds but does not use yet. */
  #slots = 0;
  #awaitsSlot = false;
  #looking = false;
  #lookAgain = false;
  /** True if more deliveries may be due than were claimed. */
  #more = false;
  #stopped = false;
  #timer: Timer | null = null;
  #wakesAt = 0;

  constructor(context: EndpointQueueContext) {
    this.#context = context;
    this.#store = context.deps.store.tenant(context.tenantId);
  }

  /** True if the queue can be dropped from memory without a delay. */
  get isIdle(): boolean {
    if (this.#looking || this.#running > 0) return false;
    // While the process stops, later deliveries are left to the next one.
    return this.#context.deps.slots.stopped || (this.#slots === 0 && !this.#awaitsSlot && this.#timer === null);
  }

  /** Claims due deliveries and starts to send them. Calls during a look cause one more look. */
  async look(): Promise<void> {
    this.#lookAgain = true;
    if (this.#looking) return;
    this.#looking = true;
    try {
      while (this.#lookAgain && !this.#stopped && !this.#context.deps.slots.stopped) {
        this.#lookAgain = false;
        await this.#take();
      }
    } catch (error) {
      // The deliveries stay due in the store.
      this.#context.deps.log.warn(
        { err: error, endpoint: this.#context.endpointId },
        "webhook deliveries could not be read from the store",
      );
      this.#wakeIn(storePauseMs);
    } finally {
      this.#looking = false;
      this.#giveSlotsBack();
    }
  }

  /** Starts nothing more; attempts in progress finish. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#giveSlotsBack();
  }

  async #take(): Promise<void> {
    const { deps, tenantId, endpointId } = this.#context;
    const { slots, owner } = deps;
    const lane = this.#lane;
    if (lane === null) {
      await this.#giveUp();
      return;
    }
    const room = attemptsMax - this.#running;
    while (this.#slots < room && slots.take(tenantId)) this.#slots++;
    const limit = Math.min(this.#slots, room);
    this.#more = true;
    if (limit > 0) {
      const forMs = lane.timeoutMs + claimMarginMs;
      const rows = await claimDeliveries(this.#store, endpointId, { owner, forMs, limit });
      this.#more = rows.length === limit;
      for (const row of rows) {
        this.#slots--;
        this.#running++;
        void this.#deliver(row, lane);
      }
      this.#giveSlotsBack();
    }
    if (!this.#more) this.#wakeIn(await nextDueMs(this.#store, endpointId));
    else if (limit < room) this.#awaitSlot();
  }

  get #lane(): Lane | null {
    const { env, deps, endpointId } = this.#context;
    const context: LaneContext = { env, deps, store: this.#store };
    if (endpointId === announcements) return announcementLane(context);
    if (isOutboxEndpoint(endpointId)) return outboxLane(context, endpointId);
    return isPushEndpoint(endpointId) ? pushLane(context) : webhookLane(context, endpointId);
  }

  async #deliver(row: DeliveryRow, lane: Lane): Promise<void> {
    const { deps, tenantId, endpointId } = this.#context;
    try {
      const span = await this.#spanOf(row);
      const start = this.#context.env.now();
      const attempted = await lane.attempt(row, span);
      if (span !== null) this.#endSpan(span, start, row, attempted.failure);
      await this.#settle(row, lane, attempted);
      await attempted.over;
    } catch (error) {
      // When the claim expires, the delivery is sent again.
      if (SvcError.from(error).code === "conflict") deps.metrics.count("svc_webhook_lost_claims_total", {});
      else deps.log.warn({ err: error, endpoint: endpointId }, "the result of a webhook delivery could not be stored");
    } finally {
      this.#running--;
      deps.slots.free(tenantId);
      if (this.#more && !this.#stopped) this.#context.wake();
    }
  }

  /** Begins the span of an attempt under the trace of its run; null if that is not traced. */
  async #spanOf({ id }: DeliveryRow): Promise<OpenSpan | null> {
    const { tracer } = this.#context.deps;
    const run_id = tracer === null ? undefined : /([0-9a-f]{32})_/.exec(id)?.[1];
    if (tracer === null || run_id === undefined) return null;
    // The attempt does not depend on this read.
    const found = await durableRunById(this.#store, run_id).catch(() => undefined);
    const trace = found?.run.asked.trace;
    return trace === undefined ? null : tracer.under(trace);
  }

  #endSpan(span: OpenSpan, start: number, row: DeliveryRow, failure: AttemptFailure | null): void {
    const { deps, endpointId } = this.#context;
    deps.tracer?.end(span, {
      name: spanNames.webhook(endpointId),
      kind: "client",
      start,
      error: failure?.reason ?? null,
      attributes: { [attributeNames.method]: "POST", [attributeNames.attempt]: row.attempts + 1 },
    });
  }

  async #settle(row: DeliveryRow, lane: Lane, attempted: Attempted): Promise<void> {
    const { failure, isFinal, pauseMs, ops = [], wakes = [] } = attempted;
    const { deps, wakeOther } = this.#context;
    const { id, type } = row;
    const endpoint = lane.label;
    const attempts = row.attempts + 1;
    const isDead =
      failure !== null && (isFinal === true || attempts >= (lane.attemptsMax ?? deps.settings.webhookMaxAttempts));
    // Retry-After extends the pause, up to the longest one.
    const asked = Math.min(failure?.retryAfterMs ?? 0, longestBackOffMs);
    const ms = Math.max(pauseMs ?? backOffMs(attempts), asked);
    const op =
      failure === null || isDead
        ? endDeliveryOp(this.#store, row, isDead ? "dead" : "delivered")
        : putOffDeliveryOp(this.#store, row, ms);
    await this.#store.write([op, ...ops]);
    for (const other of wakes) wakeOther(other);
    const outcome = failure === null ? "delivered" : isDead ? "dead" : "retry";
    deps.metrics.count("svc_webhook_delivery_total", { kind: kindOf(type), endpoint, outcome });
    if (failure === null) return;
    const { reason } = failure;
    const cure = lane.cures[reason];
    deps.log.warn(
      { webhook_id: id, endpoint, attempts, reason, outcome, ...(cure !== undefined && { cure }) },
      `a ${lane.noun} attempt failed`,
    );
    if (!isDead) this.#wakeIn(ms);
  }

  /** Gives up all deliveries to an endpoint that the tenant may no longer use. */
  async #giveUp(): Promise<void> {
    const { deps, endpointId: endpoint } = this.#context;
    for (;;) {
      const types = await giveUpSome(this.#store, endpoint);
      if (types.length === 0) return;
      for (const type of types)
        deps.metrics.count("svc_webhook_delivery_total", { kind: kindOf(type), endpoint, outcome: "dead" });
      deps.log.warn(
        { endpoint, deliveries: types.length },
        "webhook deliveries failed for good: their endpoint is unusable",
      );
    }
  }

  #awaitSlot(): void {
    if (this.#awaitsSlot) return;
    const { deps, tenantId, endpointId, wake } = this.#context;
    this.#awaitsSlot = true;
    deps.slots.await(tenantId, endpointId, () => {
      this.#awaitsSlot = false;
      this.#slots++;
      if (this.#stopped) this.#giveSlotsBack();
      else wake();
    });
  }

  #giveSlotsBack(): void {
    while (this.#slots > 0) {
      this.#slots--;
      this.#context.deps.slots.free(this.#context.tenantId);
    }
  }

  /** Schedules a look, unless an earlier one is scheduled. */
  #wakeIn(ms: number | null): void {
    const { env, wake } = this.#context;
    if (ms === null || ms > aheadMs || this.#stopped) return;
    const at = env.monotonic() + ms;
    if (this.#timer !== null && this.#wakesAt <= at) return;
    this.#timer?.cancel();
    this.#wakesAt = at;
    this.#timer = env.timer(ms, () => {
      this.#timer = null;
      wake();
    });
  }
}

/** Returns the kind of an event, which has few values and can be a metric label. */
function kindOf(type: string): string {
  return type === skillUpdateType ? "skill_update" : type.slice(0, type.indexOf("."));
}
