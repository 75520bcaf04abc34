import type { WriteOp } from "../../storage/store/store.ts";
import type { NewApproval } from "../../storage/tables/approvals.ts";
import type { AuditType } from "../audit-types.ts";
import type { ControlName, Layer } from "./order.ts";

// The verdicts of controls, as plain data.

/** No objection. */
export interface Pass {
  readonly verdict: "pass";
  /** The approval that lets the call pass. */
  readonly grant?: string;
}

export const pass: Pass = { verdict: "pass" };

/** The reason of a refusal. */
export interface Refusal {
  /** The rule or limit, for metrics and audit; for hooks, the hook's id. */
  readonly rule: string;
  /** For the model and for people; for approvals, the note. */
  readonly detail: string;
  /** The part of the control that refuses; absent if it is the control itself. */
  readonly layer?: Layer;
  /** The audit row of the refusal; absent for policy_deny. */
  readonly row?: DenialRow;
  /** A frame for clients, sent with the refusal: the approval request that a denied call has made; absent for none. */
  readonly frame?: NonNullable<Wait["frame"]>;
}

/** An audit row that records a refusal. */
export interface DenialRow {
  readonly event_type: AuditType;
  readonly status: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** The verdict on a call before it is made. */
export type CallVerdict =
  | Pass
  | ({ readonly verdict: "deny" } & Refusal)
  /**
   * Replaces the arguments for later controls, the tool and people. The new arguments must match the tool's schema. Arguments
   * that a person edited (`byPerson`) pass the earlier controls again.
   */
  | {
      readonly verdict: "replace";
      readonly args: unknown;
      readonly rule?: string;
      readonly grant?: string;
      readonly byPerson?: true;
    }
  | { readonly verdict: "wait"; readonly wait: Wait; readonly rule: string };

/** The verdict on the result of a call. */
export type ResultVerdict =
  | Pass
  | { readonly verdict: "replace"; readonly result: GovernedResult; readonly rule?: string }
  | ({ readonly verdict: "block" } & Refusal);

/**
 * The verdict on a message of a caller. With a `status`, the verdict is audited as inbound_screening and counted; a denial
 * without one is audited as policy_deny.
 */
export type InputVerdict =
  | Pass
  | {
      readonly verdict: "replace";
      readonly text: string;
      readonly rule?: string;
      readonly status?: "quarantined" | "redacted";
    }
  | ({ readonly verdict: "deny"; readonly status?: "denied" | "oversize" | "unavailable" } & Refusal);

/** The verdict on the model's output. */
export type ReplyVerdict =
  | Pass
  | { readonly verdict: "replace"; readonly text: string; readonly rule?: string }
  | ({ readonly verdict: "block" } & Refusal);

/** The result of a call; `error` is the class of a failure. */
export interface GovernedResult {
  readonly text: string;
  readonly error?: string;
  /** A replaced text keeps its images; a blocked result loses them too. */
  readonly images?: readonly ResultImage[];
  /** PDF files, for people alone; they are kept and lost like images. */
  readonly documents?: readonly ResultImage[];
  /** Where untrusted text came from; absent for text of svc and of the operator. */
  readonly taint?: readonly string[];
  /** The parts of documents that the text quotes. Clients get them with the result. A replaced text without them quotes none. */
  readonly sources?: readonly QuotedSource[];
  /** Set if the result is stored as an artifact: `text` is then its beginning, followed by the marker of the artifact. */
  readonly artifact?: StoredText;
}

/** A part of a document. */
export interface QuotedSource {
  readonly doc_id: string;
  readonly title: string;
  readonly source: string;
  readonly chunk_index: number;
}

/** The call that had a stored result. */
export interface StoredOf {
  readonly tool: string;
  readonly taint: readonly string[];
}

/** The call whose result is withheld from the model, and why. */
export interface QuarantinedOf {
  readonly tool: string;
  readonly tool_call_id: string;
  readonly findings: readonly string[];
}

/** A result that is stored apart from the log. */
export interface StoredText {
  readonly artifact_id: string;
  /** The operations that make it visible; they are written with the result. */
  readonly ops: readonly WriteOp[];
}

/** An image that a tool made. Its bytes determine its type. */
export interface ResultImage {
  readonly data: Uint8Array;
  /** For display. */
  readonly filename?: string;
}

/** The event that a call waits for (decision 87: a wait is a row, and any process can resume the run). */
export interface Wait {
  /** `approval`, `question` and the like. */
  readonly kind: string;
  /** The question, for those who may answer. */
  readonly subject: string;
  /** Epoch milliseconds after which an answer is rejected; null for none. */
  readonly deadline: number | null;
  readonly may_answer: {
    readonly scopes: readonly string[];
    /** The only principal who may answer; null for all with the scopes. */
    readonly principal: string | null;
    /** A principal who may not answer, because it made the call; null for none. */
    readonly not_principal: string | null;
  };
  /** The approval request whose decision answers this wait. */
  readonly approval_id?: string;
  /** The approval request to create with this wait. If an equal request is pending, the wait uses that one instead. */
  readonly request?: NewApproval;
  /** The id by which clients answer, if they can. */
  readonly asked_as?: string;
  /** The frame that clients receive while the wait is open. */
  readonly frame?: { readonly name: string; readonly data: Readonly<Record<string, unknown>> };
}

/** The verdict of one control, for the record. */
export type Spoken =
  | { readonly control: ControlName; readonly verdict: "pass" }
  | {
      readonly control: ControlName;
      readonly verdict: "deny" | "replace" | "wait" | "block";
      readonly rule?: string;
      /** Duration of the check. */
      readonly ms: number;
    };

/**
 * Returns the verdicts as the event log stores them: `controls` has those other than pass, `passed` the names of the controls
 * that only passed. Empty lists are left out.
 */
export function recordedVerdicts(spoken: readonly Spoken[]): {
  readonly controls?: readonly Spoken[];
  readonly passed?: readonly ControlName[];
} {
  if (spoken.length === 0) return {};
  const controls = spoken.filter(({ verdict }) => verdict !== "pass");
  const passed = new Set(spoken.map(({ control }) => control));
  for (const { control } of controls) passed.delete(control);
  return { ...(controls.length > 0 && { controls }), ...(passed.size > 0 && { passed: [...passed] }) };
}
