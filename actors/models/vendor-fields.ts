import { type SpokenField, spokenFields } from "../../bus/protocol/vendor-fields.ts";
import type { SignedThought } from "./provider.ts";

// Selects which of the fields in bus/protocol/vendor-fields.ts are returned with a message.

/** The origin of thoughts that a client sent; they are returned to any model. */
export const anyModel = "*";

/** The fields of one message as JSON members without braces; empty for none. */
export interface OwnFields {
  readonly message: string;
  /** By position of the call. */
  readonly calls: ReadonlyMap<number, string>;
}

const none: OwnFields = { message: "", calls: new Map() };

/** Returns the thoughts of a message that a model may receive under its rules. */
export function ownFields(
  thoughts: readonly SignedThought[] | null,
  { by, without }: { readonly by: string; readonly without: ReadonlySet<string> },
): OwnFields {
  if (thoughts === null || by === "") return none;
  const ofMessage = new Map<string, string>();
  const calls = new Map<number, string>();
  let spokenField: SpokenField | null = null;
  let spoken = "";
  for (const thought of thoughts) {
    if (thought.by !== by && thought.by !== anyModel) continue;
    if (thought.type === "thinking" && isSpoken(thought.field)) {
      spokenField ??= thought.field;
      spoken += thought.thinking;
    }
    if (thought.type !== "vendor") continue;
    const fields = Object.entries(JSON.parse(thought.json) as object).filter(([name]) => !without.has(name));
    const members = fields.map(([name, value]) => [name, `"${name}":${JSON.stringify(value)}`] as const);
    // Fields from the log win over fields that a client sent.
    if (thought.call === undefined)
      for (const [name, member] of members) if (!ofMessage.has(name)) ofMessage.set(name, member);
    if (thought.call !== undefined && members.length > 0 && !calls.has(thought.call))
      calls.set(thought.call, members.map(([, member]) => member).join(","));
  }
  if (spokenField !== null && !without.has(spokenField) && !ofMessage.has(spokenField))
    ofMessage.set(spokenField, `"${spokenField}":${JSON.stringify(spoken)}`);
  return { message: [...ofMessage.values()].join(","), calls };
}

/** True for a field in which providers of the OpenAI protocol send reasoning text. */
export function isSpoken(field: string | undefined): field is SpokenField {
  return (spokenFields as readonly string[]).includes(field ?? "");
}
