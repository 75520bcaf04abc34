import { runAddress } from "../../bus/address.ts";
import { orderedId } from "../../bus/env.ts";
import { SvcError } from "../../bus/errors.ts";
import { type CallAnswer, type CallProgress, CallReader } from "../../bus/frames/call-answer.ts";
import { fromJsonText } from "../../bus/protocol/json-text.ts";
import type { OfferedTool } from "../../bus/protocol/single-call.ts";
import { isImageType } from "../../storage/tables/files.ts";
import type { HttpContext } from "../context.ts";
import { followTurn, type TurnFields, type TurnRequest } from "../streams/turns.ts";
import { optionalThreadSuffix } from "../thread-id.ts";

// The tools of one agent for a client of MCP: those that its manifest binds, and `chat`, which runs a whole turn. Each call is a run of its
// own, with the controls, the limits, the audit and the metrics of every run.

/** The result of a call in the form of MCP. */
export interface CallResult {
  readonly content: readonly ContentBlock[];
  readonly isError: boolean;
}

type ContentBlock =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image"; readonly data: string; readonly mimeType: string }
  | {
      readonly type: "resource";
      readonly resource: { readonly uri: string; readonly mimeType: string; readonly blob: string };
    };

/** One call of a client. */
interface AskedCall {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
  /** Aborts when the client leaves, which stops the run. */
  readonly signal: AbortSignal;
  readonly onProgress: (progress: CallProgress) => void;
  /** Number of agents that the request has passed through. */
  readonly hops: number;
}

const chatName = "chat";
/** Max images of one answer (MCP-003). */
const imagesMax = 4;

/** The agent that a client of MCP has chosen. */
export class AgentTools {
  readonly #request: TurnRequest;
  readonly #context: HttpContext;
  readonly #manifest: string;

  constructor(request: TurnRequest, manifest: string, context: HttpContext) {
    this.#request = request;
    this.#context = context;
    this.#manifest = manifest;
  }

  /** Lists the tools. A tool of the manifest called `chat` hides ours. Refuses as a turn of the agent does. */
  async list(): Promise<readonly OfferedTool[]> {
    const own = await this.#own();
    return own.some(({ name }) => name === chatName) ? own : [...own, chatTool(this.#manifest)];
  }

  /** Makes a call. A failure or a denial is a result; refuses before the run begins as a turn does, and with unknown_tool. */
  async call(asked: AskedCall): Promise<CallResult> {
    const isChat = asked.name === chatName && !(await this.#own()).some(({ name }) => name === chatName);
    if (!isChat) {
      const call = { name: asked.name, arguments: JSON.stringify(asked.args) };
      return this.#result(await this.#run({ ...this.#fields, surface: "mcp", call }, asked), null);
    }
    const problem = problemOf(asked.args);
    if (problem !== null) return failed(`[tool error/invalid_arguments] ${problem}`);
    const { message, thread_id } = asked.args as { message: string; thread_id?: string };
    const thread_suffix = optionalThreadSuffix(thread_id);
    const messages = [{ role: "user", content: message }];
    const answer = await this.#run({ ...this.#fields, surface: "mcp_chat", messages, thread_suffix }, asked);
    return this.#result(answer, thread_suffix);
  }

  async #own(): Promise<readonly OfferedTool[]> {
    const { bus, env } = this.#context;
    const { principal } = this.#request;
    const asked = { principal, manifest: this.#manifest };
    const address = runAddress(principal.tenant_id, null, orderedId(env));
    return fromJsonText((await bus.ask(address, "tools", asked, { deadlineMs: listMs })).tools);
  }

  /** Runs a turn or a call to its end. Rejects when the client leaves. */
  async #run(fields: TurnFields, { signal, onProgress, hops }: AskedCall): Promise<CallAnswer> {
    const { head } = this.#request.exchange;
    const onAborted = (work: () => void): void => {
      if (signal.aborted) work();
      else signal.addEventListener("abort", work, { once: true });
    };
    const reader = new CallReader(onProgress);
    const { promise: gone, reject } = Promise.withResolvers<never>();
    const request = { ...this.#request, exchange: { head, onAborted } };
    const counted = { ...fields, ...(hops > 0 && { hops }) };
    const ended = followTurn(request, counted, this.#context, (text) => reader.take(text));
    signal.addEventListener("abort", () => reject(new Error("the client has left")), { once: true });
    await Promise.race([ended, gone]).catch((error: unknown) => {
      // Images that the stopped run has stored.
      if (signal.aborted && fields.thread_suffix === null)
        void ended.then(() => this.#forget(reader.answer.file_ids)).catch(() => {});
      throw error;
    });
    const { answer } = reader;
    if (answer.refusal !== undefined) {
      if (fields.thread_suffix === null) await this.#forget(answer.file_ids);
      throw SvcError.fromWire(answer.refusal);
    }
    return answer;
  }

  /** Returns the answer with its images. The images of a run without a thread are deleted, because no client knows their ids. */
  async #result({ text, is_error, file_ids }: CallAnswer, thread: string | null): Promise<CallResult> {
    const images = await Promise.all(file_ids.slice(0, imagesMax).map((id) => this.#image(id)));
    const found = images.filter((image) => image !== null);
    if (thread === null) await this.#forget(file_ids);
    const omitted = file_ids.length - found.length;
    const note = omitted === 0 ? "" : `[${omitted} ${omitted === 1 ? "image" : "images"} omitted]`;
    const words = [text, note].filter((line) => line !== "").join("\n");
    const isSpoken = words !== "" || found.length === 0;
    return { content: [...(isSpoken ? [{ type: "text" as const, text: words }] : []), ...found], isError: is_error };
  }

  /** Returns a stored file of the caller's tenant; null if it is not there. */
  async #image(id: string): Promise<ContentBlock | null> {
    const { files, store } = this.#context;
    const found = await files.read(store.tenant(this.#request.principal.tenant_id), id);
    if (found === null) return null;
    const data = Buffer.from(found.bytes).toString("base64");
    const mimeType = found.file.media_type;
    if (isImageType(mimeType)) return { type: "image", data, mimeType };
    return { type: "resource", resource: { uri: `svc-file://${id}`, mimeType, blob: data } };
  }

  async #forget(ids: readonly string[]): Promise<void> {
    const { files, store, log } = this.#context;
    const tenant = store.tenant(this.#request.principal.tenant_id);
    for (const id of ids)
      await files.remove(tenant, id).catch((err: unknown) => log.warn({ err }, "an image of a call was not deleted"));
  }

  get #fields(): Omit<TurnFields, "surface"> {
    return {
      manifest: this.#manifest,
      messages: [],
      thread_suffix: null,
      model: null,
      template: null,
      template_args: [],
      max_tokens: null,
      temperature: null,
      include_usage: false,
      response: null,
    };
  }
}

/** Opening the servers of an agent may take ten seconds. */
const listMs = 15_000;

/** The tool that runs a turn of an agent. */
function chatTool(manifest: string): OfferedTool {
  return {
    name: chatName,
    description: `Asks the agent ${manifest} and returns its answer. The agent has tools of its own. It keeps a conversation if thread_id names one.`,
    inputSchema: {
      type: "object",
      properties: {
        message: { type: "string", minLength: 1, description: "What the agent is asked." },
        thread_id: {
          type: "string",
          description: "Name of the conversation that the message belongs to; none for a single question.",
        },
      },
      required: ["message"],
      additionalProperties: false,
    },
  };
}

/** Returns what is wrong with the arguments of `chat`; null if nothing is. */
function problemOf(args: Readonly<Record<string, unknown>>): string | null {
  const other = Object.keys(args).find((name) => name !== "message" && name !== "thread_id");
  if (other !== undefined) return "only message and thread_id are allowed";
  if (typeof args.message !== "string" || args.message.trim() === "") return "message must be a text that is not blank";
  if (args.thread_id !== undefined && typeof args.thread_id !== "string") return "thread_id must be a text";
  return null;
}

function failed(text: string): CallResult {
  return { content: [{ type: "text", text }], isError: true };
}
