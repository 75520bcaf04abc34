import type { EventKind, EventRole, LogEvent, ToolCall } from "../../storage/tables/events.ts";

// The recorded events of a run, as the replay looks them up. Events of parallel agents interleave arbitrarily, and so do results
// of calls. Each agent therefore has a lane, and only its other events are matched in order.

/** The content of an event. */
export interface Said {
  /** Position of the sub-agent; empty for the root agent. */
  readonly agentPlace: string;
  readonly kind: EventKind;
  readonly role: EventRole | null;
  readonly content: string;
  readonly tool_call_id: string | null;
  readonly tool_calls: readonly ToolCall[] | null;
  readonly name: string | null;
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** A recorded event. */
export interface RecordedEvent extends Said {
  readonly seq: number;
}

/** Types of events that come from outside the run, or that a run writes for crash recovery. */
const outside = ["wait_opened", "wait_ended", "run_requeued", "run_interrupted", "held_answer"];

/** The start of the result of a call that was skipped because of a steer. */
const supersededResult = "[tool error/interrupted] not run: superseded";

/** True if the event came from outside the run, or records such an event. */
export function isOutside({ metadata }: Pick<Said, "metadata">): boolean {
  return outside.includes(String(metadata.type));
}

/** The events that a run wrote after its start. */
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

  /** True if sub-agents wrote events. */
  get hasMembers(): boolean {
    return this.#events.some(({ agentPlace }) => agentPlace !== "");
  }

  /** Number of events that the replay has matched. */
  get found(): number {
    return this.#taken.size;
  }

  take({ seq }: RecordedEvent): void {
    this.#taken.add(seq);
  }

  /** Returns the next unmatched event of a lane that is not a call or result, `behind` positions further. */
  next(agentPlace: string, behind = 0): RecordedEvent | undefined {
    return this.#inOrder().filter((event) => event.agentPlace === agentPlace)[behind];
  }

  /** Returns the unmatched call or result event with this call id. */
  ofCall(kind: "tool_call" | "tool_result", agentPlace: string, id: string): RecordedEvent | undefined {
    return this.#events.find(
      (event) =>
        event.kind === kind &&
        event.agentPlace === agentPlace &&
        event.tool_call_id === id &&
        !this.#taken.has(event.seq),
    );
  }

  /** Returns the recorded result of a call, in any lane. */
  result(id: string): RecordedEvent | undefined {
    return this.#events.find(({ kind, tool_call_id }) => kind === "tool_result" && tool_call_id === id);
  }

  /** True if the root agent's next call was skipped because of a steer. */
  get isSuperseded(): boolean {
    const next = this.#events.find(
      ({ seq, kind, agentPlace }) => kind === "tool_result" && agentPlace === "" && !this.#taken.has(seq),
    );
    return next?.content.startsWith(supersededResult) ?? false;
  }

  /** Returns the first unmatched event that is matched in order. */
  get left(): RecordedEvent | undefined {
    return this.#inOrder()[0];
  }

  /** Returns the inputs to the run before its next own event, in order. */
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

  /** Returns the recorded message of a model reply, from `at` on. `answeredBy` marks it as used. */
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

/** Returns the kind of an input to a live run; null for any other event. */
export function inputKind({ kind, role, metadata }: Said): "steer" | "follow_up" | "note" | null {
  if (kind === "custom" && role === "user") return "note";
  if (kind !== "message" || role !== "user") return null;
  return metadata.type === "steer" || metadata.type === "follow_up" ? metadata.type : null;
}

/** Returns the content of an entry or event, unwrapped if a sub-agent wrote it. */
export function saidIn({ kind, role, content, extra }: Pick<LogEvent, "kind" | "role" | "content" | "extra">): Said {
  const { member, ...metadata } = extra?.metadata ?? {};
  const by = typeof member === "string" ? member : "";
  // Parallel sub-agents may end in any order, so each end has its own lane.
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
