// A conversation as a chat client draws it, from the three lists in which the server tells it: the transcript of a snapshot, the
// items of a history, and session events. The rules are those of the web client that exists (shapes: what a client reads).

/** A tool call of an answer, and what came of it; null while it has no result. */
interface DrawnCall {
  readonly name: string;
  readonly args: unknown;
  readonly output: string | null;
}

/** What is drawn as one bubble. */
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
 * Only messages and custom entries of user and assistant are drawn; results stand by their call; an answer that has calls and no
 * words goes into the next one.
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
