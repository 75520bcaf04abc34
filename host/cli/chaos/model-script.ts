interface Message {
  readonly role: string;
  readonly content: unknown;
}

/** The tools that each run calls in order, one for each effect. */
export const script = ["chaos_look", "chaos_put", "chaos_note"] as const;

/** Returns the user message of a run. */
export function askOf(run: number): string {
  return `chaos run ${run}`;
}

/** Returns the final reply of a run. */
export function finalOf(run: number): string {
  return `Run ${run} is done.`;
}

/** Returns the run of a model request, by its user message. */
export function runOf(messages: readonly Message[]): number {
  const asked = messages.find(({ role }) => role === "user")?.content;
  const words = typeof asked === "string" ? asked : JSON.stringify(asked);
  return Number(/chaos run (\d+)/.exec(words)?.[1] ?? -1);
}

/** Returns the model's reply, determined by the request alone: the next call without a result, or the final text. */
export function answerOf(messages: readonly Message[]): object[] {
  const run = runOf(messages);
  const tool = script[messages.filter(({ role }) => role === "tool").length];
  if (tool === undefined) {
    const [first, ...rest] = finalOf(run).split(/(?<= )/);
    return [said({ role: "assistant", content: first }), ...rest.map((content) => said({ content })), end("stop")];
  }
  const call = { index: 0, id: `run-${run}-${tool}`, type: "function", function: { name: tool, arguments: "" } };
  const args = { index: 0, function: { arguments: JSON.stringify({ run }) } };
  return [said({ role: "assistant", tool_calls: [call] }), said({ tool_calls: [args] }), end("tool_calls")];
}

function said(delta: object): object {
  return chunk({ choices: [{ index: 0, delta, finish_reason: null }] });
}

function end(finish_reason: string): object {
  const usage = { prompt_tokens: 20, completion_tokens: 5, total_tokens: 25 };
  return chunk({ choices: [{ index: 0, delta: {}, finish_reason }], usage });
}

function chunk(fields: object): object {
  return { id: "chatcmpl-chaos", object: "chat.completion.chunk", created: 0, model: "chaos", ...fields };
}
