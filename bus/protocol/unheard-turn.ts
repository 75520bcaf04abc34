import type { NodeId } from "./node-id.ts";
import type { SubmitTurn } from "./run.ts";

/** What there is to say of a turn that no client waits for. */
type UnheardTurn = Pick<SubmitTurn, "run_id" | "surface" | "principal" | "request_id" | "manifest" | "thread_suffix"> &
  Partial<Pick<SubmitTurn, "idempotency" | "trigger">> & { readonly text: string };

/** A turn with one message that begins a run nobody listens to: it has none of what clients may ask for besides. */
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
