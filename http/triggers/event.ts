import { isUtf8 } from "node:buffer";
import { SvcError } from "../../bus/errors.ts";
import { JsonFault, parseStrictJson } from "../../bus/strict-json.ts";
import type { Trigger } from "../../governance/settings/triggers.ts";
import type { SignedDelivery } from "./signature.ts";

/** What has happened, as a signed body says it. */
export interface TriggerEvent {
  /** Its name; empty where nothing says so. */
  readonly name: string;
  /** What exactly was done, as GitHub says it beside the name. */
  readonly action: string | null;
  readonly payload: unknown;
}

/** Reads a signed body. Refuses with invalid_payload what is not UTF-8 JSON (decision 74). */
export function readEvent(body: Buffer, { event }: SignedDelivery): TriggerEvent {
  if (!isUtf8(body)) throw new SvcError("invalid_payload", { detail: "the body is not UTF-8" });
  let payload: unknown;
  try {
    payload = parseStrictJson(body.toString("utf8"));
  } catch (error) {
    // What GitHub sends unless JSON is chosen there.
    if (error instanceof JsonFault && event !== null && body.toString("latin1", 0, 8) === "payload=")
      throw new SvcError("invalid_payload", {
        detail: "the body is a form: the webhook needs the content type application/json",
      });
    if (error instanceof JsonFault)
      throw new SvcError("invalid_payload", { detail: `the JSON of the body ${error.message}` });
    throw error;
  }
  const { type, action } = (typeof payload === "object" && payload !== null ? payload : {}) as Record<string, unknown>;
  return {
    name: event ?? (typeof type === "string" ? type : ""),
    action: event !== null && typeof action === "string" ? action : null,
    payload,
  };
}

/** Whether a trigger runs for an event: for those that it lists, or for every one but a ping. */
export function isRun({ events }: Pick<Trigger, "events">, { name, action }: TriggerEvent): boolean {
  if (events.length === 0) return name !== "ping";
  return events.includes(name) || (action !== null && events.includes(`${name}.${action}`));
}

/** The user's message of a run: the operator's words, with what the sender may say of itself (U-26). */
export function promptOf({ id, prompt }: Trigger, { name }: TriggerEvent, delivery: string): string {
  const values: Record<string, string> = { trigger: id, event: name, delivery };
  return prompt.replaceAll(/\{(trigger|event|delivery)\}/g, (_, which: string) => plain(values[which] ?? ""));
}

/** A sender's word among the operator's: nothing that could be read as more than a name. */
function plain(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9._:-]/g, "").slice(0, 128);
}
