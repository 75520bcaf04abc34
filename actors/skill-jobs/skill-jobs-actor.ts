import { skillJobsAddress } from "../../bus/address.ts";
import type { Bus } from "../../bus/bus.ts";
import type { ScheduledTask } from "../../bus/task-declaration.ts";
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

/** Starts due jobs of skills. */
export const skillJobsTask: ScheduledTask<{ readonly bus: Bus }> = {
  name: "skill_jobs",
  of: "scheduler",
  schedule: "* * * * *",
  async run({ bus }) {
    bus.tell(skillJobsAddress(), "sweep", {});
  },
};
