import type { Static, TObject, TProperties } from "typebox";
import type { Path, ProblemType } from "../problems.ts";
import type { Registries, ToolSpec } from "../registries.ts";
import type { Rule } from "./rules.ts";

/** A part of `spec` in one file, with all facts about its fields; schema/manifest.ts lists the sections. */
export interface Section<P extends TProperties, S, C extends object> {
  /** Fields by name, in their order in `spec`. */
  readonly fields: P;
  /** Conditions that no single field can check. */
  readonly rules: readonly Rule<S>[];
  readonly binds: Binds<S>;
  readonly compile: Compile<S, C>;
}

/** The type of a spec with these fields, after defaults are filled in. */
export type SpecOf<P extends TProperties> = Static<TObject<P>>;

/** Returns the section's members of CompiledAgent. Null if a problem leaves nothing to return. */
type Compile<S, C extends object> = (spec: S, context: CompileContext) => C | null;

/** Returns the tools that the section's entries bind, in their order. */
type Binds<S> = (spec: S, context: Pick<CompileContext, "tenantId" | "registries" | "refuse">) => readonly BoundEntry[];

/** A tool, and the entry of the manifest that binds it. */
export interface BoundEntry {
  readonly loc: Path;
  readonly tool: ToolSpec;
}

/** Inputs of a section's compilation. */
export interface CompileContext {
  readonly tenantId: string;
  /** True for a manifest of the tenant's store, false for one of the operator. */
  readonly isStored: boolean;
  readonly registries: Registries;
  /** All bound tools, which are determined before any section is compiled. */
  readonly tools: readonly ToolSpec[];
  /** The tenant's soul prompt, empty if there is none. */
  readonly soul: string;
  /** Returns the object-store text that the field at `loc` names; empty if it was refused. */
  readText(file: string, loc: Path): string;
  readonly refuse: Refuse;
  /** Reports a rule of the manifest that selects nothing, counted in svc_rule_targets_nothing. */
  selectsNothing(rule: string, kind: string): void;
}

/** Reports a problem at `loc`; `says` continues a sentence after the path. */
export type Refuse = (loc: Path, says: string, type: ProblemType) => void;

/** Declares a section; all but its fields is optional. */
export function defineSection<P extends TProperties, S = SpecOf<P>, C extends object = object>(section: {
  readonly fields: P;
  readonly rules?: readonly Rule<S>[];
  readonly binds?: Binds<S>;
  readonly compile?: Compile<S, C>;
}): Section<P, S, C> {
  return { rules: [], binds: () => [], compile: () => null, ...section };
}
