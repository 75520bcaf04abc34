import type { ThreadNote } from "../protocol/thread.ts";

/** What somebody has made of a conversation's plan. */
export interface PlanEdit {
  readonly plan_id: string;
  readonly updated_at: number;
}

/** The note by which a model learns that a plan of its conversation is another one now. What the plan says does not stand in it. */
export function planNote({ plan_id, updated_at }: PlanEdit): ThreadNote {
  const edit = { kind: "plan", plan_id, updated_at };
  return {
    subject: `plan ${plan_id}`,
    content: `[plan] The user changed the plan ${JSON.stringify(plan_id)}. Read it again before you go on by it.`,
    metadata: { type: "plan_edit", ...edit },
    frame: { name: "workspace_note", data: edit },
  };
}
