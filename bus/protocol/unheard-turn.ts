import type { NodeId } from "./node-id.ts";
import type { SubmitTurn } from "./run.ts";

/** The fields of a turn without a waiting client. */
type UnheardTurn = Pick<SubmitTurn, "run_id" | "surface" | "principal" | "request_id" | "manifest" | "thread_suffix"> &
  Partial<Pick<SubmitTurn, "idempotency" | "trigger" | "evaluation" | "quoted" | "workflow" | "call">> & {
    /** The message: its text, or its parts. */
    readonly text: SubmitTurn["messages"][number]["content"];
  };

/** Builds a turn with one message and no client, and so without client options. */
export function unheardTurn({ text, idempotency = null, ...turn }: UnheardTurn, node: NodeId): SubmitTurn {
  return {
    ...turn,
    messages: [{ role: "user", content: text }],
    model: null,
    template: null,
    template_args: [],
    max_tokens: null,
    temperature: null,
    include_usage: false,
    response: null,
    idempotency,
    lease: null,
    channel: { node, id: 0 },
  };
}
