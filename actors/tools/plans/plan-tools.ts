import { SvcError } from "../../../bus/errors.ts";
import { Type } from "../../../bus/type.ts";
import {
  hasPlans,
  isExpired,
  newestPlan,
  type PlanRow,
  type PlanWritten,
  planBytesMax,
  storedPlan,
  writePlan,
} from "../../../storage/tables/plans.ts";
import { untilFirst } from "../../../storage/tables/until-first.ts";
import { defineTool, type ToolContext, type ToolErrorCode, type ToolResult } from "../tool.ts";
import { type PlanDocument, type PlanStep, withStep } from "./plan-document.ts";

// Plans of agents: rows that outlive their turn. People read and change them by /plans. An agent can access the plans of its own
// thread, and plans without a thread by id. For an anonymous caller, the latter are limited to those that the run itself
// created. It can replace only its own.

/** Max plans of one thread. */
const plansMax = 100;
const idChars = 12;

const PlanId = { pattern: "^[A-Za-z0-9_-]{1,64}$" } as const;
const Status = { minLength: 1, maxLength: 32 } as const;
const Note = { maxLength: 2000 } as const;

const createParameters = Type.Object(
  {
    title: Type.Optional(Type.String({ maxLength: 500, description: "What the plan is called." })),
    goal: Type.Optional(Type.String({ maxLength: 4000, description: "What is true when it is carried out." })),
    plan_id: Type.Optional(
      Type.String({ ...PlanId, description: "An id of your own; that of an earlier plan of yours replaces it." }),
    ),
    steps: Type.Array(
      Type.Object(
        {
          id: Type.Optional(
            Type.String({ minLength: 1, maxLength: 64, description: "s1, s2 and so on when left out." }),
          ),
          title: Type.String({ minLength: 1, maxLength: 500, description: "What is to be done, as an order." }),
          status: Type.Optional(
            Type.String({ ...Status, description: "pending, in_progress, done, skipped or failed." }),
          ),
          note: Type.Optional(Type.String({ ...Note, description: "What else there is to say of it." })),
        },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: 100, description: "The steps in their order." },
    ),
  },
  { additionalProperties: false },
);

const updateParameters = Type.Object(
  {
    plan_id: Type.String({ ...PlanId, description: "As plan_create has answered it." }),
    step_id: Type.String({ minLength: 1, maxLength: 64, description: "The step's id in the plan." }),
    status: Type.Optional(
      Type.String({ ...Status, description: "pending, in_progress, done, skipped or failed; done when left out." }),
    ),
    note: Type.Optional(Type.String({ ...Note, description: "What came of it. The note stays when left out." })),
  },
  { additionalProperties: false },
);

const getParameters = Type.Object(
  {
    plan_id: Type.Optional(
      Type.String({ ...PlanId, description: "The plan of this conversation that was changed last when left out." }),
    ),
  },
  { additionalProperties: false },
);

/** Creates a plan. */
export const planCreate = defineTool({
  name: "plan_create",
  description:
    "Writes down a plan for work of several steps, which the user sees and may change. Answers its id and the ids of its steps.",
  parameters: createParameters,
  effect: "once",
  risk: "writes",
  needs: "thread",
  async execute({ title = "", goal = "", plan_id, steps: asked }, context) {
    const steps = numbered(asked);
    const twice = steps.find(({ id }, at) => steps.findIndex((other) => other.id === id) !== at);
    if (twice) return refused("invalid_arguments", `two steps have the id ${twice.id}`);
    const plan: PlanDocument = { title, goal, steps, status: "active" };
    const id = plan_id ?? context.env.id().slice(0, idChars);
    const made = await change(id, context, async (current) => {
      if (current !== undefined && !isOwn(current, context))
        return refused("invalid_arguments", `the plan_id ${id} is taken`);
      if (current === undefined && (await hasMany(context)))
        return refused("rate_limited", `the conversation has ${plansMax} plans; replace one of them by its plan_id`);
      return { manifest_id: context.manifest, plan };
    });
    if ("error" in made) return made;
    if (context.threadSuffix === null) context.madePlans.add(made);
    return planResult(made);
  },
});

/** Changes one step of a plan. */
export const planUpdateStep = defineTool({
  name: "plan_update_step",
  description: "Says how far a step of a plan is. Call it whenever one begins, is done, skipped or failed.",
  parameters: updateParameters,
  effect: "idempotent",
  risk: "writes",
  needs: "thread",
  async execute({ plan_id, step_id, status = "done", note }, context) {
    const made = await change(plan_id, context, async (current) => {
      if (current === undefined || !isReached(current, context)) return unknownPlan(plan_id);
      const found = withStep(JSON.parse(current.plan), step_id, { status, note });
      if ("changed" in found) return { manifest_id: current.manifest_id, plan: found.changed };
      const ids = found.ids.slice(0, 100).join(", ");
      return refused("not_found", `the plan has no step ${step_id}; its steps are ${ids || "none"}`);
    });
    return "error" in made ? made : { text: `step ${step_id} of plan ${plan_id} is ${status}` };
  },
});

/** Reads a plan. */
export const planGet = defineTool({
  name: "plan_get",
  description: "Reads a plan as it is now: the user may have changed it.",
  parameters: getParameters,
  effect: "read",
  risk: "reads",
  needs: "thread",
  async execute({ plan_id }, context) {
    const { store } = context;
    const now = context.env.now();
    if (plan_id !== undefined) {
      const row = await storedPlan(store, plan_id);
      return row && !isExpired(row, now) && isReached(row, context) ? planResult(row) : unknownPlan(plan_id);
    }
    const threadId = threadOf(context);
    const newest = threadId === "" ? undefined : await newestPlan(store, threadId, now);
    return newest ? planResult(newest) : refused("not_found", "this conversation has no plan yet");
  },
});

/** The result of a change: a new document, or a refusal. */
type Made = { readonly manifest_id: string; readonly plan: object } | Refused;

type Refused = ToolResult & { readonly error: ToolErrorCode };

/** Applies a change to the stored plan; retries after a concurrent change. */
async function change(
  id: string,
  context: ToolContext,
  make: (current: PlanRow | undefined) => Promise<Made>,
): Promise<PlanRow | Refused> {
  const { store, tenantStoredBytes: limit } = context;
  const changed = await untilFirst<PlanRow | Refused>(context.env, async () => {
    const stored = await storedPlan(store, id);
    const now = context.env.now();
    const current = stored === undefined || isExpired(stored, now) ? undefined : stored;
    const made = await make(current);
    if ("error" in made) return made;
    const plan = JSON.stringify(withTaint(made.plan, context.taint));
    if (Buffer.byteLength(plan) > planBytesMax) return refused("invalid_arguments", "the plan would be over 64 KiB");
    const written: PlanWritten = {
      id,
      manifest_id: made.manifest_id,
      thread_id: current?.thread_id ?? threadOf(context),
      created_at: current?.created_at ?? now,
      expires_at: current?.expires_at ?? null,
      plan,
    };
    try {
      return await writePlan(store, stored, written, { now, limit });
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== "storage_quota_exceeded") throw error;
      return refused("rate_limited", "what may be stored is used up");
    }
  });
  return changed ?? refused("rate_limited", "the plan is being changed by others; try again");
}

function refused(error: ToolErrorCode, text: string): Refused {
  return { text, error };
}

function unknownPlan(id: string): Refused {
  return refused("not_found", `there is no plan ${id}`);
}

async function hasMany(context: ToolContext): Promise<boolean> {
  const threadId = threadOf(context);
  return threadId !== "" && (await hasPlans(context.store, threadId, plansMax));
}

/** Returns the full id of the thread; empty for none. */
function threadOf({ tenantId, threadSuffix }: ToolContext): string {
  return threadSuffix === null ? "" : `${tenantId}:${threadSuffix}`;
}

/** True if the plan belongs to the thread, or to the run if it has none. */
function isOwn(plan: PlanRow, context: ToolContext): boolean {
  return context.threadSuffix === null ? context.madePlans.has(plan) : plan.thread_id === threadOf(context);
}

function isReached(plan: PlanRow, context: ToolContext): boolean {
  // Ids chosen by people are easy to guess, so an id alone does not authorize an anonymous caller.
  return isOwn(plan, context) || (plan.thread_id === "" && !context.isAnonymous);
}

function numbered(steps: readonly (Omit<PlanStep, "id" | "status"> & Partial<PlanStep>)[]): PlanStep[] {
  return steps.map(({ id, title, status = "pending", note }, at) => ({
    id: id ?? `s${at + 1}`,
    title,
    status,
    ...(note !== undefined && { note }),
  }));
}

function planResult({ id, ts, plan }: PlanRow): ToolResult {
  const { taint } = JSON.parse(plan) as { readonly taint?: unknown };
  const sources = Array.isArray(taint) ? taint.filter((source) => typeof source === "string") : [];
  return {
    text: `{"plan_id":${JSON.stringify(id)},"updated_at":${ts},"plan":${plan}}`,
    ...(sources.length > 0 && { taint: sources }),
  };
}

/** Returns the document with the untrusted sources of its writers. */
function withTaint(plan: object, sources: readonly string[]): object {
  const { taint = [] } = plan as { readonly taint?: readonly string[] };
  const all = [...new Set([...(Array.isArray(taint) ? taint : []), ...sources])].sort();
  return all.length === 0 ? plan : { ...plan, taint: all };
}
