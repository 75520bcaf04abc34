/** A plan as agents write it. A person may have replaced it by any object. */
export interface PlanDocument {
  readonly title: string;
  readonly goal: string;
  readonly steps: readonly PlanStep[];
  readonly status: string;
}

/** A step of a plan. */
export interface PlanStep {
  readonly id: string;
  readonly title: string;
  readonly status: string;
  readonly note?: string | undefined;
}

/** The new values of a step. */
export interface StepChange {
  readonly status: string;
  /** Undefined keeps the existing note. */
  readonly note: string | undefined;
}

/** Returns the document with one step changed, or the ids of its steps if none matches. */
export function withStep(
  document: Readonly<Record<string, unknown>>,
  stepId: string,
  { status, note }: StepChange,
): { readonly changed: Record<string, unknown> } | { readonly ids: readonly string[] } {
  const steps: readonly unknown[] = Array.isArray(document.steps) ? document.steps : [];
  if (!steps.some((step) => idOf(step) === stepId)) return { ids: steps.flatMap((step) => idOf(step) ?? []) };
  const changed = steps.map((step) =>
    idOf(step) === stepId ? { ...(step as object), status, ...(note !== undefined && { note }) } : step,
  );
  return { changed: { ...document, steps: changed } };
}

function idOf(step: unknown): string | undefined {
  const { id } = (step ?? {}) as { id?: unknown };
  return typeof id === "string" ? id : undefined;
}
