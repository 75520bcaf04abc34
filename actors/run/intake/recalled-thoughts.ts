import { durableSuffix, recallAddress } from "../../../bus/address.ts";
import type { Bus } from "../../../bus/bus.ts";
import type { ToolCall } from "../../../storage/tables/events.ts";
import type { LogEntry } from "../../log/entry.ts";
import type { ContextMessage } from "../../log/message.ts";
import type { SignedThought } from "../../models/provider.ts";
import type { RunSpec } from "../spec/run-spec.ts";
import type { Intake } from "./intake.ts";

// A client without a thread sends a step's calls back, but not the vendor fields that the model needs with them. Decision 206: the process
// caches these fields in memory, by the ids of the calls.

interface Recalled {
  /** The ids of the step's calls, in their order. */
  readonly ids: readonly string[];
  readonly thoughts: readonly SignedThought[];
}

/** Caches the vendor fields of a step whose calls are handed to a client without a thread. */
export function keepThoughts(
  { message, handed }: { readonly message: ContextMessage | undefined; readonly handed: readonly ToolCall[] },
  { thread_suffix, response, run_id, principal }: Pick<RunSpec, "thread_suffix" | "response" | "run_id" | "principal">,
  { bus, host }: { readonly bus: Bus; readonly host: string },
): void {
  const isAlone = thread_suffix === null || thread_suffix === durableSuffix(run_id) || response !== null;
  const thoughts = message?.thoughts ?? null;
  if (!isAlone || thoughts === null) return;
  const kept: Recalled = { ids: message?.tool_calls?.map(({ id }) => id) ?? [], thoughts };
  const call_ids = handed.map(({ id }) => id);
  bus.tell(recallAddress(host), "keep", { tenant_id: principal.tenant_id, call_ids, text: JSON.stringify(kept) });
}

/** Adds the cached vendor fields of the quoted calls to an intake. They take precedence over fields from the client. */
export async function withRecalled(
  intake: Intake,
  tenant_id: string,
  { bus, host }: { readonly bus: Bus; readonly host: string },
): Promise<Intake> {
  const quoted = intake.entries.flatMap((entry) => (isQuoted(entry) ? [entry.extra?.tool_calls ?? []] : []));
  const call_ids = quoted.flat().map(({ id }) => id);
  if (call_ids.length === 0) return intake;
  // Without an answer from the cache, the turn proceeds without these fields.
  const { found } = await bus.ask(recallAddress(host), "recall", { tenant_id, call_ids }).catch(() => ({ found: [] }));
  const known = new Map(call_ids.map((id, at) => [id, found[at] ?? null]));
  if (![...known.values()].some((text) => text !== null)) return intake;
  return { ...intake, entries: intake.entries.map((entry) => (isQuoted(entry) ? withThoughts(entry, known) : entry)) };
}

function isQuoted({ role, extra }: LogEntry): boolean {
  return role === "assistant" && extra?.metadata?.source === "client" && extra.tool_calls !== undefined;
}

function withThoughts(entry: LogEntry, known: ReadonlyMap<string, string | null>): LogEntry {
  const calls = entry.extra?.tool_calls ?? [];
  const texts = new Set(calls.flatMap(({ id }) => known.get(id) ?? []));
  const recalled = [...texts].flatMap((text, at) => {
    const { ids, thoughts } = JSON.parse(text) as Recalled;
    return thoughts.flatMap((thought): SignedThought[] => {
      // If a message joins calls of several steps, it gets the message-level fields of the first step only.
      if (thought.type !== "vendor" || thought.call === undefined) return at === 0 ? [thought] : [];
      const place = calls.findIndex(({ id }) => id === ids[thought.call as number]);
      return place < 0 ? [] : [{ ...thought, call: place }];
    });
  });
  const own = (entry.extra?.metadata?.thinking ?? []) as readonly SignedThought[];
  const thinking = [...recalled, ...own];
  return { ...entry, extra: { ...entry.extra, metadata: { ...entry.extra?.metadata, thinking } } };
}
