import type { CompiledAgent } from "../../../manifests/compile/compiled.ts";
import type { PeerTool } from "../../../manifests/sections/peers.ts";
import { requestFailure } from "../request-failure.ts";
import type { ToolSource } from "../source.ts";
import { type Tool, type ToolContext, type ToolResult, toolError } from "../tool.ts";
import { secretParts, withoutSecrets } from "../without-secrets.ts";
import { cancelTask, type Peer, PeerError, type PeerTask, readTask, sendMessage } from "./peer-calls.ts";

// spec.peers: external agents, asked over the A2A protocol. A call sends one message and reads the task until it ends.

/** The source of tools in spec.peers. */
export const peerSource: ToolSource = {
  name: "spec.peers",
  offers: [],
  resolve(name: string, { peers }: CompiledAgent) {
    const declared = peers.get(name);
    return declared && peerTool(declared);
  },
};

interface Arguments {
  readonly message: string;
  readonly manifest?: string;
}

/** Wait before the first look at a task, and its maximum. */
const firstPauseMs = 100;
const pauseMsMax = 2_000;

function peerTool(declared: PeerTool): Tool {
  return {
    ...declared,
    transport: "remote",
    // Later than the deadline of the call, which has the better message.
    timeoutMs: declared.timeoutMs + 15_000,
    execute: (args: Arguments, context) => call(declared, args, context),
  };
}

async function call(tool: PeerTool, { message, manifest }: Arguments, context: ToolContext): Promise<ToolResult> {
  const { peer: name, url, auth, timeoutMs, hopsMax } = tool;
  const hops = context.hops + 1;
  if (hops > hopsMax)
    return toolError(
      "permission_denied",
      `peer_hop_limit: this call would be agent ${hops} of a chain of at most ${hopsMax}`,
    );
  const { services, env, key, signal } = context;
  const secret = auth === null ? null : await services.secrets.resolve(auth).catch(() => undefined);
  if (secret === undefined) return toolError("permission_denied", `the credential for ${name} is not set`);
  const authorization = secret === null ? null : secret.includes(" ") ? secret : `Bearer ${secret}`;
  const peer: Peer = { url, authorization, hops, requester: services.egress.agent };
  const endsAt = env.monotonic() + timeoutMs;
  const left = (): number => Math.max(1, endsAt - env.monotonic());
  const answered = (result: ToolResult): ToolResult => ({
    ...result,
    text: withoutSecrets(result.text, secret === null ? [] : secretParts(secret)),
    taint: [`peer:${name}`],
  });
  let cancel = async (): Promise<void> => {};
  try {
    let { task, version } = await sendMessage(peer, { id: key, text: message, manifest: manifest ?? null }, left());
    // The model reads that the call has failed, so its task must not act later.
    cancel = () => cancelTask(peer, version, task.id).catch(() => {});
    for (let pauseMs = firstPauseMs; task.state === "working"; pauseMs = Math.min(pauseMsMax, pauseMs * 2)) {
      const isOver = await pause(env, signal, Math.min(pauseMs, left()));
      if (isOver || left() === 1) {
        await cancel();
        return answered(toolError("timeout", `${name} has not answered within ${timeoutMs} ms`));
      }
      task = await readTask(peer, version, task.id, left());
    }
    if (task.state === "asks") await cancel();
    return answered(resultOf(name, task));
  } catch (error) {
    await cancel();
    if (error instanceof PeerError) return answered(toolError(error.code, error.message));
    return requestFailure(error, timeoutMs);
  }
}

function resultOf(name: string, { state, text, images }: PeerTask): ToolResult {
  switch (state) {
    case "completed":
      return { text, ...(images.length > 0 && { images }) };
    case "asks":
      return toolError("provider_error", `${name} asks for more: ${text}`);
    case "rejected":
      return toolError("permission_denied", `${name} has refused: ${text}`);
    default:
      return toolError("provider_error", `${name} has failed: ${text}`);
  }
}

/** Resolves after a time, or when the call is over; true if it is over. */
function pause(env: ToolContext["env"], signal: AbortSignal, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(true);
    const timer = env.timer(ms, () => {
      signal.removeEventListener("abort", over);
      resolve(false);
    });
    const over = (): void => {
      timer.cancel();
      resolve(true);
    };
    signal.addEventListener("abort", over, { once: true });
  });
}
