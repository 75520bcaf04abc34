// The document of a workflow: its inputs, the steps of a graph, and its outputs. The file check.ts finds the mistakes in one.

/** The type of a value that flows between steps. */
export type PortType = "text" | "number" | "boolean" | "list" | "object" | "any";

/** A named value that a kind takes or gives. */
export interface Port {
  readonly name: string;
  readonly type: PortType;
  readonly required: boolean;
}

/** A declared input of a workflow. */
export interface InputDefinition {
  readonly type: PortType;
  readonly required: boolean;
  readonly default: unknown;
}

/** How often a failed step is tried again, and the first pause, which doubles. */
export interface Retry {
  readonly max: number;
  readonly backoff_seconds: number;
}

/** The work of a step, or of each item of a map. */
export interface StepWork {
  readonly kind: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly retry: Retry;
  /** Max seconds of work, without waits; null for no limit of its own. */
  readonly timeout_seconds: number | null;
  readonly on_error: "fail" | "continue";
}

/** A step of a workflow. */
export interface StepDefinition extends StepWork {
  readonly id: string;
  readonly label: string | null;
  /** The steps that end before this one: those that it names, and those whose values it reads. */
  readonly needs: readonly string[];
  readonly when: string | null;
  /** Values that its own templates read as `input.NAME`. */
  readonly inputs: Readonly<Record<string, unknown>>;
}

/** A workflow whose document has been read. */
export interface WorkflowDefinition {
  readonly inputs: ReadonlyMap<string, InputDefinition>;
  readonly steps: readonly StepDefinition[];
  readonly outputs: Readonly<Record<string, unknown>>;
  readonly limits: { readonly max_cost_usd: number | null; readonly max_wall_clock_seconds: number | null };
}

/** Max steps of a workflow, and UTF-8 bytes of its document. */
export const stepsMax = 100;
export const definitionBytesMax = 256 * 1024;
/** Max bytes of all values that the templates of a step expand to (decision 217). */
export const expandedBytesMax = 4 * 1024 * 1024;
/** Max UTF-8 bytes of the inputs of a run, and of the output of a step. */
export const valueBytesMax = 256 * 1024;
/** Max bytes of all outputs of a run together. */
export const outputsBytesMax = 8 * 1024 * 1024;
/** Max items of a map. */
export const itemsMax = 1_000;

/** True for the id of a step, or the name of an input or an output. */
export function isName(text: string): boolean {
  return /^[A-Za-z][A-Za-z0-9_-]{0,63}$/.test(text);
}

/** True for the id of a workflow. */
export function isWorkflowId(text: string): boolean {
  return /^[a-z0-9_-]{1,64}$/.test(text) && text !== "-";
}

/** True if a value of the type `given` may stand where `wanted` is expected. `any` may hold every type, so only a run can tell. */
export function fits(given: PortType, wanted: PortType): boolean {
  return given === wanted || given === "any" || wanted === "any";
}

/** Returns the type of a value; `any` for null. */
export function typeOf(value: unknown): PortType {
  if (typeof value === "string") return "text";
  if (typeof value === "number") return "number";
  if (typeof value === "boolean") return "boolean";
  if (Array.isArray(value)) return "list";
  return value === null || value === undefined ? "any" : "object";
}

/** True for an object that is no list. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
