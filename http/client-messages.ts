import type { ClientMessage } from "../bus/protocol/run.ts";
import {
  type ClientVendor,
  callField,
  messageFields,
  spokenFields,
  vendorCharsMax,
} from "../bus/protocol/vendor-fields.ts";

/**
 * Returns the messages with only the fields that a turn reads. Clients may add any other fields, and structured clone to the actor takes
 * ten times as long as parsing for objects of differing shapes. The run validates the remaining fields.
 */
export function leanMessages(messages: readonly ClientMessage[]): ClientMessage[] {
  return messages.map((message) => {
    const lean = leanMessage(message) as ClientMessage;
    const vendor = message.role === "assistant" ? vendorOf(message) : null;
    return vendor === null ? lean : { ...lean, vendor };
  });
}

/** Returns the fields that a provider needs back, as JSON texts; null if there are none. */
function vendorOf(message: ClientMessage): ClientVendor | null {
  const ofMessage = vendorJson(message, messageFields);
  const calls = (Array.isArray(message.tool_calls) ? (message.tool_calls as unknown[]) : []).flatMap((call) => {
    const json = vendorJson(call, [callField]);
    const { id } = Object(call) as { readonly id?: unknown };
    return json === null || typeof id !== "string" ? [] : [[id, json] as const];
  });
  return ofMessage === null && calls.length === 0 ? null : { message: ofMessage, calls };
}

/** Returns null for JSON that is too long. */
function vendorJson(whole: unknown, fields: readonly string[]): string | null {
  if (typeof whole !== "object" || whole === null) return null;
  const found = fields.flatMap((name) => {
    const value = Object.hasOwn(whole, name) ? (whole as Readonly<Record<string, unknown>>)[name] : null;
    const isWords = (spokenFields as readonly string[]).includes(name);
    const fits = isWords ? typeof value === "string" : typeof value === "object" && value !== null;
    return fits ? [[name, value]] : [];
  });
  const json = JSON.stringify(Object.fromEntries(found));
  return found.length === 0 || json.length > vendorCharsMax ? null : json;
}

type Lean = (value: unknown) => unknown;

/** Keeps a plain value; replaces a list or an object by an empty one, so that validation still sees its type. */
const bare: Lean = (value) => {
  if (typeof value !== "object" || value === null) return value;
  return Array.isArray(value) ? [] : {};
};

function items(item: Lean): Lean {
  return (value) => (Array.isArray(value) ? value.map(item) : bare(value));
}

function members(known: Readonly<Record<string, Lean>>): Lean {
  const read = Object.entries(known);
  return (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return bare(value);
    const whole = value as Readonly<Record<string, unknown>>;
    const lean: Record<string, unknown> = {};
    for (const [name, member] of read) if (Object.hasOwn(whole, name)) lean[name] = member(whole[name]);
    return lean;
  };
}

/** The fields that `takeMessages` reads. */
const leanMessage = members({
  role: bare,
  content: items(
    members({
      type: bare,
      text: bare,
      file_id: bare,
      file: members({ file_id: bare }),
      image_url: members({ url: bare, detail: bare }),
    }),
  ),
  name: bare,
  tool_calls: items(members({ id: bare, function: members({ name: bare, arguments: bare }) })),
  tool_call_id: bare,
  attachments: items(members({ url: bare, media_type: bare, filename: bare, detail: bare })),
});
