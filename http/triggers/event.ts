import { isUtf8 } from "node:buffer";
import { SvcError } from "../../bus/errors.ts";
import { soundJson, soundText } from "../../bus/sound-text.ts";
import { JsonFault, parseStrictJson } from "../../bus/strict-json.ts";
import type { Trigger } from "../../governance/settings/triggers.ts";
import type { SignedDelivery } from "./signature.ts";

/** The event in a signed body. */
export interface TriggerEvent {
  /** The event's name; empty if there is none. */
  readonly name: string;
  /** GitHub's `action`, which refines the name; null otherwise. */
  readonly action: string | null;
  /** The JSON of the body in the sender's spelling, without whitespace between tokens, NUL and lone surrogates. */
  readonly payload: string;
}

/**
 * Reads a signed body. Accepts any JSON of RFC 8259 within the limits of size and depth, because the sender's library chose its numbers and
 * keys. Refuses with invalid_payload if the body is not UTF-8 JSON.
 */
export function readEvent(body: Buffer, { event }: SignedDelivery): TriggerEvent {
  if (!isUtf8(body)) throw new SvcError("invalid_payload", { detail: "the body is not UTF-8" });
  const text = body.toString("utf8");
  let value: unknown;
  try {
    value = parseStrictJson(text, { lenient: true });
  } catch (error) {
    // GitHub sends a form unless the webhook's content type is JSON.
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

/** Returns the JSON text without whitespace between its tokens. */
function compact(json: string): string {
  return json.replaceAll(/("[^"\\]*(?:\\.[^"\\]*)*")|\s+/gs, (_, literal: string | undefined) => literal ?? "");
}

/** True if a trigger runs for an event: one that it lists, or, without a list, any event except a ping. */
export function isRun({ events }: Pick<Trigger, "events">, { name, action }: TriggerEvent): boolean {
  if (events.length === 0) return name !== "ping";
  return events.includes(name) || (action !== null && events.includes(`${name}.${action}`));
}

/** Returns the user message of the run: the operator's prompt, with the trigger's id, the event's name and the delivery id filled in. */
export function promptOf({ id, prompt }: Trigger, { name }: TriggerEvent, delivery: string): string {
  const values: Record<string, string> = { trigger: id, event: name, delivery };
  return prompt.replaceAll(/\{(trigger|event|delivery)\}/g, (_, which: string) => plain(values[which] ?? ""));
}

/** Removes characters from a sender's value, so that it cannot contain more than a name. */
function plain(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9._:-]/g, "").slice(0, 128);
}
