/** A plan as agents write it. What a person has put in its place may be any object. */
export interface PlanDocument {
  readonly title: string;
  readonly goal: string;
  readonly steps: readonly PlanStep[];
  readonly status: string;
}

/** One thing to be done. */
export interface PlanStep {
  readonly id: string;
  readonly title: string;
  readonly status: string;
  readonly note?: string | undefined;
}

/** What a step is to be. */
export interface StepChange {
  readonly status: string;
  /** Undefined leaves the one that is there. */
  readonly note: string | undefined;
}

/** A document with one of its steps changed and all else as it is, or the ids of its steps when none is called so. */
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
