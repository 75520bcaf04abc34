import type { ClientMessage } from "../bus/protocol/run.ts";

/**
 * The messages without what no turn reads. A client may write what it likes beside that, and structured clone, on the way to the
 * actor, takes ten times as long for objects that are all of another form as parsing them took. What is left is judged where the
 * turn is taken in.
 */
export function leanMessages(messages: readonly ClientMessage[]): ClientMessage[] {
  return messages.map((message) => leanMessage(message) as ClientMessage);
}

type Lean = (value: unknown) => unknown;

/** A plain value; of a list or an object no more than that it is one. */
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

/** What `takeMessages` looks at. */
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
