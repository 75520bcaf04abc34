import assert from "node:assert/strict";
import { pino } from "pino";
import { deliveryActor } from "../../../actors/delivery/delivery-actor.ts";
import type { DeliveryDeps } from "../../../actors/delivery/deps.ts";
import { wakeDeliveries } from "../../../actors/delivery/due-deliveries.ts";
import { deliveryAddress } from "../../../bus/address.ts";
import { FairSemaphore } from "../../../bus/queues/fair-semaphore.ts";
import { StoredAccess } from "../../../governance/auth/stored-access.ts";
import type { ResponseHandler } from "../../../governance/egress/connection.ts";
import type { Egress } from "../../../governance/egress/egress.ts";
import { EgressBlocked } from "../../../governance/egress/failure.ts";
import { ResponseHead } from "../../../governance/egress/response-head.ts";
import type { Target } from "../../../governance/egress/target.ts";
import { loadSettings } from "../../../governance/settings/settings.ts";
import { readWebhookEndpoints, type WebhookEndpoints } from "../../../governance/settings/webhook-endpoints.ts";
import type { Store } from "../../../storage/store/store.ts";
import { outboxOps } from "../../../storage/tables/deliveries.ts";
import { type RefusingStore, refusingStore } from "../../support/refusing-store.ts";
import { SimNet } from "../../support/sim-bus.ts";
import { SimDisk } from "../../support/sim-disk.ts";
import { Sim } from "../../support/sim-env.ts";
import type { Cleanup } from "../../support/temp.ts";

// Delivery actors on their bus and their store, in simulated time. Only the endpoints are replaced: a request to one is
// recorded, and answered as the test says.

export const minute = 60_000;
export const secret = "whsec_dGhlIHNlY3JldCBvZiB0aGlzIHRlc3Q=";

/** A request as it was sent, with its time. */
export interface Sent {
  readonly at: number;
  readonly host: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly policy: string;
}

/**
 * A status, its delay, and the delay of its body; `hang` for no answer, `blocked` for an address that is not allowed.
 */
export type SimAnswer =
  | { readonly status: number; readonly afterMs?: number; readonly bodyMs?: number; readonly retryAfter?: string }
  | "hang"
  | "blocked";

export interface WorldOptions {
  readonly sim?: Sim;
  readonly disk?: SimDisk;
  readonly host?: string;
  readonly endpoints?: Record<string, object>;
  readonly settings?: Partial<DeliveryDeps["settings"]>;
  readonly slots?: FairSemaphore;
  /** The answer to a request; `nth` counts those to the same host. */
  readonly answer?: (host: string, nth: number, sent: Sent) => SimAnswer;
}

export async function world(atEnd: Cleanup, options: WorldOptions = {}) {
  const sim = options.sim ?? new Sim(1);
  const disk = options.disk ?? (await SimDisk.open(atEnd));
  const host = options.host ?? "host";
  const endpoints = endpointsOf(options.endpoints ?? { ops: {} });
  const sent: Sent[] = [];
  const counted: Record<string, number> = {};
  const logged: Record<string, unknown>[] = [];
  const stores: RefusingStore[] = [];
  const slotsOfAll: FairSemaphore[] = [];
  /** Active requests, and their maximum, by host. */
  const underWay = new Map<string, { now: number; most: number }>();
  const answer = options.answer ?? ((): SimAnswer => ({ status: 200 }));

  const egress = (policy: string, env: ReturnType<Sim["env"]>): Pick<Egress, "dispatch"> => ({
    dispatch(target: Target, request, handler: ResponseHandler) {
      const load = underWay.get(target.host) ?? { now: 0, most: 0 };
      underWay.set(target.host, load);
      load.now++;
      load.most = Math.max(load.most, load.now);
      let open = true;
      const close = (): void => {
        if (open) load.now--;
        open = false;
      };
      const controller = { abort: close, pause() {}, resume() {} };
      const nth = sent.filter((each) => each.host === target.host).length;
      const note: Sent = {
        at: env.now(),
        host: target.host,
        headers: pairs(request.headers),
        body: request.body ?? "",
        policy,
      };
      sent.push(note);
      handler.onRequestStart(controller);
      const how = answer(target.host, nth, note);
      if (how === "hang") return;
      if (how === "blocked") {
        close();
        handler.onResponseError(new EgressBlocked());
        return;
      }
      env.timer(how.afterMs ?? 1, () => {
        if (!open) return;
        handler.onResponseStart(
          ResponseHead.parse(`HTTP/1.1 ${how.status} ${how.retryAfter ? `\r\nretry-after: ${how.retryAfter}` : ""}`),
        );
        const end = (): void => {
          if (!open) return;
          handler.onResponseEnd();
          close();
        };
        if (how.bodyMs === undefined) end();
        else env.timer(how.bodyMs, end);
      });
    },
  });

  let incarnation = 0;
  const net = new SimNet(sim, {
    actorNodes: [0, 1],
    otherNodes: [2],
    hostOf: () => host,
    definitions: [deliveryActor],
    depsOf: (node, env): DeliveryDeps => {
      const store = refusingStore(disk.store(sim, env));
      stores.push(store);
      const slots = options.slots ?? new FairSemaphore(256, 64);
      slotsOfAll.push(slots);
      return {
        settings: {
          ...loadSettings({}),
          webhookEndpoints: endpoints,
          webhookTimeoutSeconds: 10,
          webhookMaxAttempts: 8,
          ...options.settings,
        },
        store,
        access: new StoredAccess(),
        readAccess: async () => {},
        tracer: null,
        secrets: { resolve: async (text) => (text === "secret:GONE" ? Promise.reject(new Error("gone")) : text) },
        webhookEgress: { public: egress("public", env), operator: egress("operator", env) },
        outgoing: { whole: () => Promise.reject(new Error("no push is sent")) },
        outboxKinds: new Map(),
        webhookAgent: "svc-webhooks/1.2.3",
        slots,
        metrics: {
          count(name, labels, amount = 1) {
            const key = [name, ...Object.values(labels)].join(" ");
            counted[key] = (counted[key] ?? 0) + amount;
          },
        },
        log: pino({ level: "warn" }, { write: (line: string) => void logged.push(JSON.parse(line)) }),
        owner: `${host}:${node}:${incarnation++}`,
      };
    },
  });
  const { env, bus } = net.node(2);
  const store: Store = disk.store(sim, env);
  const wake = (tenantId: string, endpointId: string): void =>
    bus.tell(deliveryAddress(tenantId, endpointId), "wake", {});

  return {
    sim,
    disk,
    net,
    env,
    bus,
    store,
    sent,
    counted,
    logged,
    stores,
    underWay,
    wake,
    slots: slotsOfAll,
    /** Writes the deliveries of an end, and notifies the delivery actor. */
    async end(
      source: string,
      endpointIds: readonly string[],
      tenantId = "acme",
      body = `{"of":"${source}"}`,
    ): Promise<void> {
      const tenant = store.tenant(tenantId);
      const ops = outboxOps(tenant, { source, type: "run.completed", body, endpoints: endpointIds });
      await sim.until(tenant.write(ops));
      for (const id of endpointIds) wake(tenantId, id);
    },
    /** This number ends at once. */
    async endMany(count: number, endpointIds: readonly string[], tenantId = "acme"): Promise<void> {
      const tenant = store.tenant(tenantId);
      const ops = Array.from({ length: count }, (_, run) =>
        outboxOps(tenant, {
          source: `run_${run}`,
          type: "run.completed",
          body: `{"run":${run}}`,
          endpoints: endpointIds,
        }),
      );
      await sim.until(tenant.write(ops.flat()));
      for (const id of endpointIds) wake(tenantId, id);
    },
    /** Runs the duty of each minute, from now on. */
    sweepEachMinute(): void {
      const sweep = async (which: "due" | "all"): Promise<void> => {
        await wakeDeliveries(store, bus, which);
        env.timer(minute, () => void sweep("due"));
      };
      void sweep("all");
    },
    /** The rows of `deliveries` in the store. */
    rows: () =>
      disk.query(
        "SELECT id, endpoint_id, state, attempts, body, claimed_by FROM deliveries ORDER BY id",
      ) as unknown as {
        id: string;
        endpoint_id: string;
        state: string;
        attempts: number;
        body: string;
        claimed_by: string | null;
      }[],
    states: (): Record<string, string> =>
      Object.fromEntries(disk.query("SELECT id, state FROM deliveries").map(({ id, state }) => [id, state as string])),
    /** The process ends without warning. */
    kill(): void {
      for (const node of [0, 1, 2]) {
        net.node(node).env.end();
        net.node(node).host.close();
      }
    },
    assertSound(): void {
      assert.deepEqual(net.crashes, []);
    },
  };
}

/** A registry of endpoints, each on its own host. */
function endpointsOf(given: Record<string, object>): WebhookEndpoints {
  return readWebhookEndpoints(
    Object.fromEntries(
      Object.entries(given).map(([id, more]) => [id, { url: `https://${id}.example/`, secret, tenants: "*", ...more }]),
    ),
  );
}

function pairs(headers: readonly string[]): Record<string, string> {
  const found: Record<string, string> = {};
  for (let at = 0; at < headers.length; at += 2) found[headers[at] as string] = headers[at + 1] as string;
  return found;
}
