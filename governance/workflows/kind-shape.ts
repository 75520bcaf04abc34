import type { TSchema } from "typebox";
import type { Port, PortType } from "./definition.ts";

/**
 * The form of a field of a step's config. A `literal` has no references. A `condition` is an expression. `each` is a list of references;
 * those without a value are dropped. `step` is the work of each item of a map. A `prompt` is a text for a model that marks untrusted values.
 */
export type FieldForm = "literal" | "condition" | "each" | "step" | "prompt";

/** The rules for steps of a kind in a definition. */
export interface KindShape {
  readonly kind: string;
  readonly source: "builtin" | "plugin";
  /** One sentence, for the writer of a workflow. */
  readonly description: string;
  /** JSON Schema of the config, before its references are filled. */
  readonly config: TSchema;
  /** The values that a step gets in its `inputs`; null if a step may name any. */
  readonly inputs: readonly Port[] | null;
  readonly outputs: readonly Port[];
  /** Fields of the config that are not plain values with references. */
  readonly forms?: Readonly<Record<string, FieldForm>>;
  /** Types of fields that may be a reference. */
  readonly types?: Readonly<Record<string, PortType>>;
  /** True if a map may have it as the work of its items. */
  readonly isInner?: true;
}

/** The kinds by their names. */
export type KindShapes = ReadonlyMap<string, KindShape>;
