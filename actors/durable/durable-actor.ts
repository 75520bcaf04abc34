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
