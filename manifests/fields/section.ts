import type { Static, TObject, TProperties } from "typebox";
import type { Path, ProblemType } from "../problems.ts";
import type { Registries, ToolSpec } from "../registries.ts";
import type { Rule } from "./rules.ts";

/** A part of `spec` in one file. All that is known of its fields is here; schema/manifest.ts has the list of the sections. */
export interface Section<P extends TProperties, S, C extends object> {
  /** By name, in the order in which they stand in `spec`. */
  readonly fields: P;
  /** What one field alone cannot be refused for. */
  readonly rules: readonly Rule<S>[];
  readonly compile: Compile<S, C>;
}

/** A spec as far as these fields go: every default filled in. */
export type SpecOf<P extends TProperties> = Static<TObject<P>>;

/** What a run gets of the section: members of CompiledAgent. Null after a refusal that leaves nothing to give. */
type Compile<S, C extends object> = (spec: S, context: CompileContext) => C | null;

/** What a section has around it when it is compiled. */
export interface CompileContext {
  readonly tenantId: string;
  readonly registries: Registries;
  /** Every tool that the model is offered, bound before any section is compiled. */
  readonly tools: readonly ToolSpec[];
  /** The tenant's soul prompt, empty when there is none. */
  readonly soul: string;
  /** The text of the object store that the field at `loc` names; empty when it was refused. */
  readText(file: string, loc: Path): string;
  readonly refuse: Refuse;
  /** A rule of the manifest selects nothing: it is counted in svc_rule_targets_nothing. */
  selectsNothing(rule: string, kind: string): void;
}

/** Notes that the manifest cannot be honoured at `loc`; the sentence goes on after the path. */
export type Refuse = (loc: Path, says: string, type: ProblemType) => void;

/** A section; rules and compile are left out where there is nothing to say. */
export function defineSection<P extends TProperties, S = SpecOf<P>, C extends object = object>(section: {
  readonly fields: P;
  readonly rules?: readonly Rule<S>[];
  readonly compile?: Compile<S, C>;
}): Section<P, S, C> {
  return { rules: [], compile: () => null, ...section };
}
