import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { ClientTool } from "../../../manifests/sections/client-tools.ts";
import type { ToolSource } from "../source.ts";
import { type Tool, toolError } from "../tool.ts";

// spec.client_tools: the client that started the turn is asked to make the call, or whoever listens to its thread. What it says
// comes back as the answer to a wait.

/** What a client says of a call that it was asked to make. */
export interface ClientToolAnswer {
  /** For the model. */
  readonly content: string;
  /** The call failed; `content` is the reason. */
  readonly error: boolean;
}

/** Bytes of the arguments of one call: they are kept while it is open, and told to everybody who comes to listen. */
const argumentsBytesMax = 256 * 1024;

/** Where the tools of spec.client_tools come from. No manifest can name them for another. */
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
    // Of what is done here; how long the client may take is the wait's deadline.
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
      return error ? toolError("provider_error", content) : { text: content };
    },
  };
}
