import type { NewApproval } from "../../storage/tables/approvals.ts";
import type { ControlName, Layer } from "./order.ts";

// What controls answer. All of it is plain data.

/** Nothing is in the way. */
export interface Pass {
  readonly verdict: "pass";
  /** The approval by which it passes. */
  readonly grant?: string;
}

export const pass: Pass = { verdict: "pass" };

/** Why something is refused. */
export interface Refusal {
  /** The rule or limit, for metrics and audit; of hooks its id. */
  readonly rule: string;
  /** For the model and for people; of approvals the note. */
  readonly detail: string;
  /** The part of the control that refuses, where it has parts; else the control itself. */
  readonly layer?: Layer;
}

/** On a call that is about to be made. */
export type CallVerdict =
  | Pass
  | ({ readonly verdict: "deny" } & Refusal)
  /**
   * Later controls and the tool get these arguments, and people are shown them. They are held against the tool's schema. Those that
   * a person has put in (`byPerson`) are looked at by the controls before, too.
   */
  | {
      readonly verdict: "replace";
      readonly args: unknown;
      readonly rule?: string;
      readonly grant?: string;
      readonly byPerson?: true;
    }
  | { readonly verdict: "wait"; readonly wait: Wait; readonly rule: string };

/** On what came of a call. */
export type ResultVerdict =
  | Pass
  | { readonly verdict: "replace"; readonly result: GovernedResult; readonly rule?: string }
  | ({ readonly verdict: "block" } & Refusal);

/** On what the model has said. */
export type ReplyVerdict =
  | Pass
  | { readonly verdict: "replace"; readonly text: string; readonly rule?: string }
  | ({ readonly verdict: "block" } & Refusal);

/** What a call gave. With `error`, a class of failures, it failed. */
export interface GovernedResult {
  readonly text: string;
  readonly error?: string;
  /** A control that replaces the text leaves them as they are; one that blocks the result blocks them too. */
  readonly images?: readonly ResultImage[];
}

/** An image that a tool has made. What it is its bytes say. */
export interface ResultImage {
  readonly data: Uint8Array;
  /** For people. */
  readonly filename?: string;
}

/** What a call waits for before it may be made (decision 87). */
export interface Wait {
  /** What is waited for: `approval`, `question` and the like. */
  readonly kind: string;
  /** What is asked, for those who may answer. */
  readonly subject: string;
  /** Epoch milliseconds after which nobody may answer any more; null for none. */
  readonly deadline: number | null;
  readonly may_answer: {
    readonly scopes: readonly string[];
    /** The one principal who may; null for everybody with the scopes. */
    readonly principal: string | null;
    /** The one principal who may not, because it asked; null for none. */
    readonly not_principal: string | null;
  };
  /** The request for approval that it is for: what is said to that is the answer. */
  readonly approval_id?: string;
  /** That request, where it is to be made: it is written together with the wait, which may come to be for an equal one. */
  readonly request?: NewApproval;
  /** The id by which clients answer it, where they do. */
  readonly asked_as?: string;
  /** What clients are told while it is open. */
  readonly frame?: { readonly name: string; readonly data: Readonly<Record<string, unknown>> };
}

/** A control that said something other than pass, for the record. */
export interface Spoken {
  readonly control: ControlName;
  readonly verdict: "deny" | "replace" | "wait" | "block";
  readonly rule?: string;
  /** How long it took to say so, in milliseconds. */
  readonly ms: number;
}
