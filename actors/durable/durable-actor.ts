import { durableAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { RepeatedTask } from "../../bus/task-declaration.ts";
import type { Metrics } from "../../governance/metrics.ts";
import { holds } from "../../governance/settings/duties.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store } from "../../storage/store/store.ts";
import { defineActor } from "../runtime/define.ts";
import { RunScheduler } from "./run-scheduler.ts";

/** Dependencies of the actor. */
export interface DurableDeps {
  readonly settings: Pick<Settings, "durableConcurrency" | "durablePollSeconds" | "duties">;
  readonly store: Pick<Store, "system">;
  readonly metrics: Metrics;
}

/** Assigns the slots of one host to its durable runs. */
export const durableActor = defineActor<"durable", RunScheduler, DurableDeps>({
  kind: "durable",
  mailboxLimit: 65_536,
  interleaves: ["wake", "begin", "step", "left", "drain"],
  reserved: ["wake", "left", "drain"],
  passivateAfterMs: 300_000,
  load({ bus, env, deps }) {
    const { settings, store, metrics } = deps;
    const scheduler = new RunScheduler(bus, env, store.system, settings.durableConcurrency, metrics);
    // Without the duty `worker`, due runs wait in the store for another process.
    if (!holds(settings, "worker")) scheduler.drain();
    return scheduler;
  },
  idle: (scheduler) => scheduler.isIdle,
  crashed: (scheduler) => scheduler.drain(),
  on: {
    wake: (scheduler, place) => scheduler.add(place, "hint"),
    begin: (scheduler, place) => ({ go: scheduler.mayBegin(place) }),
    step: (scheduler, place) => ({ go: scheduler.mayStep(place) }),
    left: (scheduler, place) => scheduler.free(place),
    look: (scheduler, { all }) => scheduler.look(all),
    drain: (scheduler) => scheduler.drain(),
  },
});

const offMs = 3_600_000;
const lookMs = 60_000;

interface LookDeps {
  readonly bus: Bus;
  /** Id of this process among the hosts. */
  readonly host: string;
}

/** Looks for durable runs of this host. */
export const pollTask: RepeatedTask<LookDeps & { readonly settings: Pick<Settings, "durablePollSeconds"> }> = {
  name: "fiber_poll",
  of: "worker",
  async run({ bus, host, settings: { durablePollSeconds } }) {
    if (durablePollSeconds === 0) return offMs;
    bus.tell(durableAddress(host), "look", { all: false });
    return durablePollSeconds * 1_000;
  },
};

/** Looks for durable runs of all hosts. */
export const runSchedulerTask: RepeatedTask<LookDeps> = {
  name: "fiber_scheduler",
  of: "scheduler",
  async run({ bus, host }) {
    bus.tell(durableAddress(host), "look", { all: true });
    return lookMs;
  },
};
