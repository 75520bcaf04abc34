import type { ThreadNote } from "../protocol/thread.ts";

/** A user's change of a thread's plan. */
export interface PlanEdit {
  readonly plan_id: string;
  readonly updated_at: number;
}

/** Returns the note that informs a model of a changed plan, without the text of the plan. */
export function planNote({ plan_id, updated_at }: PlanEdit): ThreadNote {
  const edit = { kind: "plan", plan_id, updated_at };
  return {
    subject: `plan ${plan_id}`,
    content: `[plan] The user changed the plan ${JSON.stringify(plan_id)}. Read it again before you go on by it.`,
    metadata: { type: "plan_edit", ...edit },
    frame: { name: "workspace_note", data: edit },
  };
}
