import { defineActor } from "../runtime/define.ts";
import type { SkillJobsDeps } from "./deps.ts";
import { SkillSweep } from "./sweep.ts";

/** Works on the jobs of skills of all tenants. There is one for all hosts. */
export const skillJobsActor = defineActor<"skilljobs", SkillSweep, SkillJobsDeps>({
  kind: "skilljobs",
  mailboxLimit: 64,
  interleaves: [],
  reserved: [],
  passivateAfterMs: 60_000,
  load: ({ env, deps }) => new SkillSweep(env, deps),
  idle: (sweep) => sweep.isIdle,
  crashed: (sweep) => sweep.stop(),
  on: {
    sweep: (sweep) => sweep.begin(),
  },
});
