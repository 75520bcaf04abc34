import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { ClientTool } from "../../../manifests/sections/client-tools.ts";
import type { ToolSource } from "../source.ts";
import { type Tool, toolError } from "../tool.ts";

// spec.client_tools: the client that started the turn, or a subscriber of its thread, executes the call. Its result arrives as
// the answer to a wait.

/** The result that a client sends for a call. */
export interface ClientToolAnswer {
  /** For the model. */
  readonly content: string;
  /** True if the call failed; `content` is the reason. */
  readonly error: boolean;
}

/** Max bytes of the arguments of one call: they are stored while it is open, and sent to every new subscriber. */
const argumentsBytesMax = 256 * 1024;

/** The source of tools in spec.client_tools. A manifest cannot name tools of another one. */
export const clientToolSource: ToolSource = {
  name: "spec.client_tools",
  offers: [],
  resolve(name: string, { clientTools }: CompiledAgent) {
    const declared = clientTools.get(name);
    return declared && clientTool(declared);
  },
};

function clientTool(declared: ClientTool): Tool {
  const { name, timeoutMs } = declared;
  return {
    ...declared,
    transport: "client",
    needs: "person",
    // Limits the work here; the wait's deadline limits the client.
    timeoutMs: 30_000,
    execute(args: unknown, { askedOn, toolCallId, env }) {
      if (askedOn === null)
        return toolError("transport_unavailable", `client tool ${name} unavailable: no client connected`);
      if (Buffer.byteLength(JSON.stringify(args)) > argumentsBytesMax)
        return toolError("invalid_arguments", `the arguments are longer than ${argumentsBytesMax} bytes`);
      return {
        wait: {
          kind: "client_tool",
          subject: name,
          deadline: env.now() + timeoutMs,
          may_answer: { scopes: [], principal: null, not_principal: null },
          asked_as: toolCallId,
          frame: {
            name: "tool_request",
            data: { id: toolCallId, name, args, thread_id: askedOn, transport: "client" },
          },
        },
      };
    },
    resume(_args, outcome) {
      if (outcome.kind === "expired") return toolError("timeout", "client tool timed out");
      const { content, error } = outcome.value as ClientToolAnswer;
      return { ...(error ? toolError("provider_error", content) : { text: content }), taint: ["client"] };
    },
  };
}
