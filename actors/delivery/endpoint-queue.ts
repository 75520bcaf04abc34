import type { Env, Timer } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { openEndpoint, signingKey, type WebhookEndpoint } from "../../governance/settings/webhook-endpoints.ts";
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
import { Attempt, type AttemptFailure, failed } from "./attempt.ts";
import type { DeliveryDeps } from "./deps.ts";
import { signatureOf } from "./signature.ts";

/** Max concurrent attempts per queue. A slow endpoint delays only its own queue. */
const attemptsMax = 16;
/** A queue sets a timer for deliveries that are due within this time; a periodic task wakes it for later ones. */
export const aheadMs = 90_000;
/** A claim lasts this much longer than its attempt, to record the outcome. */
const claimMarginMs = 30_000;
/** Pause after the store rejected a statement. */
const storePauseMs = 5_000;

const noSecret = "no usable secret";
/** Instructions for the operator about failures that no retry resolves. */
const cures: Readonly<Record<string, string>> = {
  "status 410": "The endpoint says that it is gone for good: correct its url in SVC_WEBHOOK_ENDPOINTS, or remove it.",
  blocked: "The url leads to a private or reserved address: correct it, or set private: true in SVC_WEBHOOK_ENDPOINTS.",
  [noSecret]:
    "A secret of the endpoint is missing or too short: set the SVC_SECRET_ variable, or the file in SVC_SECRETS_DIR, that it names.",
};

/** The environment of a queue. */
export interface EndpointQueueContext {
  readonly env: Env;
  readonly deps: DeliveryDeps;
  readonly tenantId: string;
  readonly endpointId: string;
  /** Makes the actor call `look` soon. */
  readonly wake: () => void;
}

/**
 * Delivers the webhooks of one tenant to one endpoint: claims due deliveries, sends a bounded number concurrently, and
 * reschedules failed ones.
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
    const { slots, settings, owner } = deps;
    const endpoint = openEndpoint(settings.webhookEndpoints, endpointId, tenantId);
    if (endpoint === null) {
      await this.#giveUp();
      return;
    }
    const room = attemptsMax - this.#running;
    while (this.#slots < room && slots.take(tenantId)) this.#slots++;
    const limit = Math.min(this.#slots, room);
    this.#more = true;
    if (limit > 0) {
      const forMs = settings.webhookTimeoutSeconds * 1000 + claimMarginMs;
      const rows = await claimDeliveries(this.#store, endpointId, { owner, forMs, limit });
      this.#more = rows.length === limit;
      for (const row of rows) {
        this.#slots--;
        this.#running++;
        void this.#deliver(row, endpoint);
      }
      this.#giveSlotsBack();
    }
    if (!this.#more) this.#wakeIn(await nextDueMs(this.#store, endpointId));
    else if (limit < room) this.#awaitSlot();
  }

  async #deliver(row: DeliveryRow, endpoint: WebhookEndpoint): Promise<void> {
    const { deps, tenantId, endpointId } = this.#context;
    try {
      const { failure, over } = await this.#attempt(row, endpoint);
      await this.#settle(row, failure);
      await over;
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

  async #attempt(
    { id, body }: DeliveryRow,
    endpoint: WebhookEndpoint,
  ): Promise<{ failure: AttemptFailure | null; over: Promise<void> }> {
    const { env, deps } = this.#context;
    const keys: Buffer[] = [];
    for (const secret of endpoint.secrets) {
      const key = await deps.secrets.resolve(secret).then(signingKey, () => null);
      if (key === null) return { failure: failed(noSecret), over: Promise.resolve() };
      keys.push(key);
    }
    const timestamp = Math.floor(env.now() / 1000);
    const headers = [
      ...["content-type", "application/json"],
      ...["user-agent", deps.webhookAgent],
      ...["webhook-id", id],
      ...["webhook-timestamp", String(timestamp)],
      ...["webhook-signature", signatureOf(keys, id, timestamp, body)],
    ];
    const timeoutMs = deps.settings.webhookTimeoutSeconds * 1000;
    const egress = deps.webhookEgress[endpoint.private ? "operator" : "public"];
    const attempt = new Attempt(env, egress, { url: endpoint.url, headers, body, timeoutMs });
    return { failure: await attempt.outcome, over: attempt.over };
  }

  async #settle(row: DeliveryRow, failure: AttemptFailure | null): Promise<void> {
    const { deps, endpointId: endpoint } = this.#context;
    const { id, type } = row;
    const attempts = row.attempts + 1;
    const isDead = failure !== null && attempts >= deps.settings.webhookMaxAttempts;
    // Retry-After extends the pause, up to the longest one.
    const ms = Math.max(backOffMs(attempts), Math.min(failure?.retryAfterMs ?? 0, longestBackOffMs));
    const op =
      failure === null || isDead
        ? endDeliveryOp(this.#store, row, isDead ? "dead" : "delivered")
        : putOffDeliveryOp(this.#store, row, ms);
    await this.#store.write([op]);
    const outcome = failure === null ? "delivered" : isDead ? "dead" : "retry";
    deps.metrics.count("svc_webhook_delivery_total", { kind: kindOf(type), endpoint, outcome });
    if (failure === null) return;
    const { reason } = failure;
    const cure = cures[reason];
    deps.log.warn(
      { webhook_id: id, endpoint, attempts, reason, outcome, ...(cure !== undefined && { cure }) },
      "a webhook attempt failed",
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

/** Returns the first part of the type, which has few values and can be a metric label. */
function kindOf(type: string): string {
  return type.slice(0, type.indexOf("."));
}
