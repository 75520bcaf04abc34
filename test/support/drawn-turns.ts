// A thread as a chat client draws it, from the three lists of the server: the transcript of a snapshot, the items of a
// history, and session events. The rules are those of the existing web client (shapes: a client's view).

/** A tool call of an answer, with its result; null while it has none. */
interface DrawnCall {
  readonly name: string;
  readonly args: unknown;
  readonly output: string | null;
}

/** The content of one bubble. */
export interface Drawn {
  readonly role: string;
  readonly text: string;
  readonly calls: readonly DrawnCall[];
  readonly thinking: string;
}

/** An entry of any of the three lists, with its own spelling. */
interface Entry {
  readonly kind: string;
  readonly role: string | null;
  readonly content: string;
  readonly metadata?: { readonly thinking?: readonly { readonly type: string; readonly thinking: string }[] };
  readonly [field: string]: unknown;
}

const spellings = {
  camel: { calls: "toolCalls", callId: "toolCallId" },
  snake: { calls: "tool_calls", callId: "tool_call_id" },
} as const;

/**
 * Only messages and custom entries of user and assistant are drawn. A result is drawn with its call, and an answer with
 * calls and no text is merged into the next one.
 */
export function drawnTurns(entries: readonly Entry[], spelling: keyof typeof spellings): Drawn[] {
  const { calls: callsKey, callId } = spellings[spelling];
  const outputs = new Map(
    entries.filter(({ kind }) => kind === "tool_result").map((entry) => [entry[callId], entry.content]),
  );
  const drawn: Drawn[] = [];
  let open: Drawn | null = null;
  for (const entry of entries) {
    if (entry.kind !== "message" && entry.kind !== "custom") continue;
    if (entry.role !== "user" && entry.role !== "assistant") continue;
    const asked = (entry[callsKey] ?? []) as readonly { id: string; name: string; args: unknown }[];
    const calls: readonly DrawnCall[] = asked.map(({ id, name, args }) => ({
      name,
      args,
      output: outputs.get(id) ?? null,
    }));
    const thinking = (entry.metadata?.thinking ?? []).map((block) => block.thinking).join("");
    const bubble: Drawn = {
      role: entry.role,
      text: entry.content,
      calls: [...(open?.calls ?? []), ...calls],
      thinking: (open?.thinking ?? "") + thinking,
    };
    const isOpen = entry.role === "assistant" && asked.length > 0 && entry.content === "";
    if (isOpen) open = bubble;
    else {
      open = null;
      drawn.push(bubble);
    }
  }
  return open === null ? drawn : [...drawn, open];
}
