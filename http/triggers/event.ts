import { isUtf8 } from "node:buffer";
import { SvcError } from "../../bus/errors.ts";
import { soundJson, soundText } from "../../bus/sound-text.ts";
import { JsonFault, parseStrictJson } from "../../bus/strict-json.ts";
import type { Trigger } from "../../governance/settings/triggers.ts";
import type { SignedDelivery } from "./signature.ts";

/** What has happened, as a signed body says it. */
export interface TriggerEvent {
  /** Its name; empty where nothing says so. */
  readonly name: string;
  /** What exactly was done, as GitHub says it beside the name. */
  readonly action: string | null;
  /** The JSON of the body as the sender wrote it, without blanks between its tokens, NUL and halves of surrogate pairs. */
  readonly payload: string;
}

/**
 * Reads a signed body. Takes whatever RFC 8259 allows, within the bounds of decision 74: the sender's library chose the numbers and
 * keys. Refuses with invalid_payload what is not UTF-8 JSON.
 */
export function readEvent(body: Buffer, { event }: SignedDelivery): TriggerEvent {
  if (!isUtf8(body)) throw new SvcError("invalid_payload", { detail: "the body is not UTF-8" });
  const text = body.toString("utf8");
  let value: unknown;
  try {
    value = parseStrictJson(text, { lenient: true });
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
  const { type, action } = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  return {
    name: event ?? (typeof type === "string" ? soundText(type) : ""),
    action: event !== null && typeof action === "string" ? action : null,
    payload: soundJson(compact(text)),
  };
}

/** The JSON text without blanks between its tokens. */
function compact(json: string): string {
  return json.replaceAll(/("[^"\\]*(?:\\.[^"\\]*)*")|\s+/gs, (_, literal: string | undefined) => literal ?? "");
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
