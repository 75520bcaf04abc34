import type { EventKind, EventRole, LogEvent, ToolCall } from "../../storage/tables/events.ts";

// The events of a run, as they are looked for when the run is made again. Those of agents side by side come in any order between each
// other, and so do the results of calls: each agent has a place of its own, and in it what is no call and no result stands in
// order.

/** What an event says, whoever of the run has said it. */
export interface Said {
  /** The place of the sub-agent, "" for the agent that was asked. */
  readonly agentPlace: string;
  readonly kind: EventKind;
  readonly role: EventRole | null;
  readonly content: string;
  readonly tool_call_id: string | null;
  readonly tool_calls: readonly ToolCall[] | null;
  readonly name: string | null;
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** An event that is looked for. */
export interface RecordedEvent extends Said {
  readonly seq: number;
}

/** What becomes known of a run from the outside, and what it notes for the case that its process dies. */
const outside = ["wait_opened", "wait_ended", "run_requeued", "run_interrupted", "held_answer"];

/** How the result of a call begins that is not made since something was said. */
const supersededResult = "[tool error/interrupted] not run: superseded";

/** Whether it was told of a run from the outside, or of what came to it from there. */
export function isOutside({ metadata }: Pick<Said, "metadata">): boolean {
  return outside.includes(String(metadata.type));
}

/** What a run has written behind its beginning. */
export class RecordedLog {
  readonly #events: readonly RecordedEvent[];
  readonly #taken = new Set<number>();
  readonly #answers = new Set<number>();

  constructor(events: readonly LogEvent[]) {
    this.#events = events.map((event) => ({ ...saidIn(event), seq: event.seq }));
  }

  get size(): number {
    return this.#events.length;
  }

  /** Whether agents have said something in the place of the one that was asked. */
  get hasMembers(): boolean {
    return this.#events.some(({ agentPlace }) => agentPlace !== "");
  }

  /** How many were found again. */
  get found(): number {
    return this.#taken.size;
  }

  take({ seq }: RecordedEvent): void {
    this.#taken.add(seq);
  }

  /** The next event of a place that is no call and no result; undefined when none is left. */
  next(agentPlace: string, behind = 0): RecordedEvent | undefined {
    return this.#inOrder().filter((event) => event.agentPlace === agentPlace)[behind];
  }

  /** The call or the result of a call. */
  ofCall(kind: "tool_call" | "tool_result", agentPlace: string, id: string): RecordedEvent | undefined {
    return this.#events.find(
      (event) =>
        event.kind === kind &&
        event.agentPlace === agentPlace &&
        event.tool_call_id === id &&
        !this.#taken.has(event.seq),
    );
  }

  /** What is on record of the result of a call, in any place. */
  result(id: string): RecordedEvent | undefined {
    return this.#events.find(({ kind, tool_call_id }) => kind === "tool_result" && tool_call_id === id);
  }

  /** Whether the next call of the agent that was asked was not made, since its user had said something else. */
  get isSuperseded(): boolean {
    const next = this.#events.find(
      ({ seq, kind, agentPlace }) => kind === "tool_result" && agentPlace === "" && !this.#taken.has(seq),
    );
    return next?.content.startsWith(supersededResult) ?? false;
  }

  /** The first that stands in order and was not found again. */
  get left(): RecordedEvent | undefined {
    return this.#inOrder()[0];
  }

  /** What was said to the run before its next own event, in order. */
  inputs(kinds: readonly string[]): RecordedEvent[] {
    const found: RecordedEvent[] = [];
    for (const event of this.#inOrder()) {
      if (event.agentPlace !== "") continue;
      const kind = inputKind(event);
      if (kind === null || !kinds.includes(kind)) break;
      found.push(event);
    }
    return found;
  }

  /** The message of a model that was answered with, from `at` on; each is given out once, as `answeredBy` says. */
  answer(at: number, fits: (event: RecordedEvent) => boolean): RecordedEvent | undefined {
    return this.#events.find(
      (event) =>
        event.seq >= at &&
        event.kind === "message" &&
        event.role === "assistant" &&
        !this.#answers.has(event.seq) &&
        fits(event),
    );
  }

  answeredBy({ seq }: RecordedEvent): void {
    this.#answers.add(seq);
  }

  #inOrder(): RecordedEvent[] {
    return this.#events.filter(
      ({ seq, kind, metadata }) =>
        !this.#taken.has(seq) && kind !== "tool_call" && kind !== "tool_result" && !isOutside({ metadata }),
    );
  }
}

/** What somebody has said to a run while it went on; null for everything else. */
export function inputKind({ kind, role, metadata }: Said): "steer" | "follow_up" | "note" | null {
  if (kind === "custom" && role === "user") return "note";
  if (kind !== "message" || role !== "user") return null;
  return metadata.type === "steer" || metadata.type === "follow_up" ? metadata.type : null;
}

/** What an entry or an event says: of a sub-agent, what the sub-agent has said. */
export function saidIn({ kind, role, content, extra }: Pick<LogEvent, "kind" | "role" | "content" | "extra">): Said {
  const { member, ...metadata } = extra?.metadata ?? {};
  const by = typeof member === "string" ? member : "";
  // Of sub-agents side by side any may be the first to end.
  const agentPlace = metadata.type === "member_end" ? `${by}/end of ${metadata.place}` : by;
  const own = { kind, role, content, ...extra };
  if (metadata.type !== "member") return { agentPlace, ...parts(own), metadata };
  const { inner, type: _type, ...rest } = metadata as { inner: typeof own; type: string };
  return { agentPlace, ...parts(inner), metadata: rest };
}

function parts({
  kind,
  role,
  content,
  name,
  tool_call_id,
  tool_calls,
}: Omit<Said, "metadata" | "agentPlace" | "name" | "tool_call_id" | "tool_calls"> & {
  readonly name?: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly ToolCall[];
}) {
  return {
    kind,
    role,
    content,
    name: name ?? null,
    tool_call_id: tool_call_id ?? null,
    tool_calls: tool_calls ?? null,
  };
}
