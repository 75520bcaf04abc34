// Rebuilds a model request from the log alone, as GET /chat/sessions/{id} shows it. It implements the rules a second
// time, so that an incomplete log, or a prompt beyond the log, is detected.

/** An entry of a snapshot's transcript. */
export interface LoggedEntry {
  readonly seq: number;
  readonly kind: string;
  readonly role: string | null;
  readonly content: string;
  readonly toolCallId?: string;
  readonly toolCalls?: readonly { readonly id: string; readonly name: string; readonly args: unknown }[];
  readonly metadata: {
    readonly type?: string;
    readonly in_context?: boolean;
    readonly attachments?: readonly { readonly url: string; readonly media_type: string }[];
    readonly first_kept_seq?: number;
    readonly opening_seq?: number;
  };
}

/** A message as an OpenAI-style provider takes it. */
interface WireMessage {
  readonly role: string;
  readonly content: unknown;
  readonly tool_calls?: unknown;
  readonly tool_call_id?: string;
}

/** The manifest's window of messages: the newest groups that fit into so many messages, or everything. */
export interface Shortening {
  readonly windowed?: number;
  readonly cleared?: { readonly keep_turns: number; readonly min_chars: number };
}

/**
 * The messages, without the system's, before the reply at `seq`. `turnFrom` is the first event of its run; `bytes` are
 * those of files by their references, as base64.
 */
export function rebuiltRequest(
  log: readonly LoggedEntry[],
  seq: number,
  turnFrom: number,
  shortening: Shortening = {},
  bytes: ReadonlyMap<string, string> = new Map(),
): WireMessage[] {
  const before = log.filter((entry) => entry.seq < seq);
  const compaction = before.findLast(({ kind }) => kind === "compaction");
  const firstKept = compaction?.metadata.first_kept_seq ?? 0;
  const opening = before.find((entry) => entry.seq === compaction?.metadata.opening_seq);
  const kept = before.filter((entry) => isShown(entry) && entry.seq >= firstKept);
  const entries = inCallOrder([...(opening ? [opening] : []), ...kept]);
  const shown = windowOf(entries, turnFrom, shortening.windowed ?? Number.POSITIVE_INFINITY);
  const cleared = clearedOf(shown, shortening.cleared);
  const summary = compaction && {
    role: "user",
    content: `[Summary of the conversation before this point.]\n${compaction.content}`,
  };
  return [...(summary ? [summary] : []), ...cleared.map((entry) => wireMessage(entry, bytes))];
}

function isShown({ kind, role, content, metadata }: LoggedEntry): boolean {
  if (role === null || role === "system") return false;
  return (
    kind === "message" ||
    kind === "tool_result" ||
    (kind === "custom" && metadata.in_context === true && content !== "")
  );
}

/** Results in the order of their calls. */
function inCallOrder(entries: readonly LoggedEntry[]): LoggedEntry[] {
  const ordered: LoggedEntry[] = [];
  const taken = new Set<LoggedEntry>();
  for (const [at, entry] of entries.entries()) {
    if (taken.has(entry)) continue;
    ordered.push(entry);
    for (const { id } of entry.toolCalls ?? []) {
      const result = entries.find((each, place) => place > at && each.toolCallId === id && !taken.has(each));
      if (result === undefined) continue;
      taken.add(result);
      ordered.push(result);
    }
  }
  return ordered;
}

/**
 * The newest whole groups that fit, with every user's message of the turn; the last group in any case (decision 80:
 * windows of whole groups).
 */
function windowOf(entries: readonly LoggedEntry[], turnFrom: number, most: number): LoggedEntry[] {
  const groups: LoggedEntry[][] = [];
  for (const entry of entries) {
    if (entry.kind === "tool_result") groups.at(-1)?.push(entry);
    else groups.push([entry]);
  }
  const isAsked = (entry: LoggedEntry | undefined) => entry?.role === "user" && entry.seq >= turnFrom;
  let left = most - entries.filter(isAsked).length;
  const shown = new Set<LoggedEntry[]>(groups.filter((group) => isAsked(group[0])));
  for (const group of groups.toReversed()) {
    if (isAsked(group[0])) continue;
    const isLast = group === groups.at(-1);
    if (group.length > left && !isLast) break;
    left -= group.length;
    shown.add(group);
  }
  return groups.filter((group) => shown.has(group)).flat();
}

function clearedOf(entries: readonly LoggedEntry[], cleared: Shortening["cleared"]): readonly LoggedEntry[] {
  if (cleared === undefined) return entries;
  const turns = entries.flatMap(({ role }, at) => (role === "user" ? [at] : []));
  const from = turns.at(-cleared.keep_turns) ?? 0;
  return entries.map((entry, at) =>
    at < from && entry.kind === "tool_result" && entry.content.length > cleared.min_chars
      ? { ...entry, content: `[This result was cleared: ${entry.content.length} characters.]` }
      : entry,
  );
}

function wireMessage(entry: LoggedEntry, bytes: ReadonlyMap<string, string>): WireMessage {
  const { role, kind, metadata, toolCalls, toolCallId } = entry;
  const isClients = kind === "custom" && metadata.type === "custom" && role !== "assistant";
  const words = isClients ? `[The client supplied this entry.]\n${entry.content}` : entry.content;
  const images = (metadata.attachments ?? []).map(({ url, media_type }) => ({
    type: "image_url",
    image_url: { url: url.startsWith("svc-file://") ? `data:${media_type};base64,${bytes.get(url)}` : url },
  }));
  return {
    role: isClients ? "user" : String(role),
    content: images.length === 0 ? words : [{ type: "text", text: words }, ...images],
    ...(toolCalls && {
      tool_calls: toolCalls.map(({ id, name, args }) => ({
        id,
        type: "function",
        function: { name, arguments: JSON.stringify(args) },
      })),
    }),
    ...(toolCallId !== undefined && { tool_call_id: toolCallId }),
  };
}
