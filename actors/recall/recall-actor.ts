import { defineActor } from "../runtime/define.ts";
import { Kept } from "./kept.ts";

/** Caches the thoughts of calls that clients without a thread execute, for all tenants of one process. */
export const recallActor = defineActor<"recall", Kept, Record<never, never>>({
  kind: "recall",
  mailboxLimit: 65_536,
  interleaves: [],
  reserved: ["keep"],
  passivateAfterMs: 300_000,
  load: ({ env }) => new Kept(() => env.monotonic()),
  idle: (kept) => kept.isEmpty,
  crashed: () => {},
  on: {
    keep(kept, { tenant_id, call_ids, text }) {
      for (const id of call_ids) kept.add(`${tenant_id}/${id}`, text);
    },
    recall: (kept, { tenant_id, call_ids }) => ({ found: call_ids.map((id) => kept.find(`${tenant_id}/${id}`)) }),
  },
});
