import { todosOf } from "../bus/frames/todos.ts";
import type { LogEvent, ToolCall } from "../storage/tables/events.ts";

/** Facts about the active branch, collected while its events are read. */
export class LogFacts {
  readonly #calls: CallEvent[] = [];
  #newest: { assistant: boolean; aborted: boolean } | null = null;

  /** Takes the events of the active branch in order. */
  take(event: LogEvent): void {
    const { extra } = event;
    if (event.kind === "message" && (event.role === "user" || event.role === "assistant"))
      this.#newest = {
        assistant: event.role === "assistant" && !extra?.tool_calls?.length,
        aborted: extra?.metadata?.status === "aborted",
      };
    if (extra?.tool_calls && extra.tool_calls.length > 0) this.#calls.push({ calls: extra.tool_calls });
    if (event.kind === "tool_result" && extra?.tool_call_id !== undefined)
      this.#calls.push({ id: extra.tool_call_id, ok: extra.metadata?.status === "ok" });
  }

  /** Returns the facts for a snapshot at this position of the log. */
  of(headSeq: number) {
    const replies = repliesOf(this.#calls);
    const newest = this.#newest;
    return {
      wake: {
        fresh: newest === null,
        headSeq,
        endedOnAssistant: newest?.assistant ?? false,
        pendingToolCalls: replies.at(-1)?.flatMap(({ call, ok }) => (ok === null ? [call] : [])) ?? [],
      },
      todos: newestTodos(replies.flat()),
      aborted: newest?.aborted ?? false,
    };
  }
}

/** A call of a reply: `ok` is the success of its result, null while there is none. */
interface CallFact {
  readonly call: ToolCall;
  ok: boolean | null;
}

/** The calls of a reply, or the result of one call. */
type CallEvent = { readonly calls: readonly ToolCall[] } | { readonly id: string; readonly ok: boolean };

/**
 * Returns the calls of each reply, in order. A result belongs to the newest reply, because an earlier run may have used the same call id.
 */
function repliesOf(events: readonly CallEvent[]): CallFact[][] {
  const replies: CallFact[][] = [];
  let newest = new Map<string, CallFact>();
  for (const event of events) {
    if ("calls" in event) {
      newest = new Map(event.calls.map((call) => [call.id, { call, ok: null }]));
      replies.push([...newest.values()]);
    } else {
      const answered = newest.get(event.id);
      if (answered) answered.ok = event.ok;
    }
  }
  return replies;
}

/** Returns the to-do list of the last successful todo_write. */
function newestTodos(calls: readonly CallFact[]) {
  const accepted = calls.findLast(({ call, ok }) => call.name === "todo_write" && ok);
  return accepted ? todosOf(accepted.call.args as Parameters<typeof todosOf>[0]) : [];
}
