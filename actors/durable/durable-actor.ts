import type { Metrics } from "../../governance/metrics.ts";
import { holds } from "../../governance/settings/duties.ts";
import type { Settings } from "../../governance/settings/settings.ts";
import type { Store } from "../../storage/store/store.ts";
import { defineActor } from "../runtime/define.ts";
import { Slots } from "./slots.ts";

/** What the slots of durable runs need. */
export interface DurableDeps {
  readonly settings: Pick<Settings, "durableConcurrency" | "durablePollSeconds" | "duties">;
  readonly store: Pick<Store, "system">;
  readonly metrics: Metrics;
}

/** Gives the slots of one host to its durable runs. */
export const durableActor = defineActor<"durable", Slots, DurableDeps>({
  kind: "durable",
  mailboxLimit: 65_536,
  interleaves: ["wake", "begin", "step", "left", "drain"],
  reserved: ["wake", "left", "drain"],
  passivateAfterMs: 300_000,
  load({ bus, env, deps }) {
    const { settings, store, metrics } = deps;
    const slots = new Slots(bus, env, store.system, settings.durableConcurrency, metrics);
    // What is due stays so until a process that works comes.
    if (!holds(settings, "worker")) slots.drain();
    return slots;
  },
  idle: (slots) => slots.isIdle,
  crashed: (slots) => slots.drain(),
  on: {
    wake: (slots, place) => slots.add(place, "hint"),
    begin: (slots, place) => ({ go: slots.mayBegin(place) }),
    step: (slots, place) => ({ go: slots.mayStep(place) }),
    left: (slots, place) => slots.free(place),
    look: (slots, { all }) => slots.look(all),
    drain: (slots) => slots.drain(),
  },
});
