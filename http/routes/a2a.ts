import { createHash } from "node:crypto";
import { a2aSuffix, runAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { rpcResultText, sentResult, taskObject } from "../../bus/frames/a2a-objects.ts";
import { principalId } from "../../bus/protocol/principal.ts";
import type { A2aVersion } from "../../bus/protocol/run.ts";
import { Type } from "../../bus/type.ts";
import type { TenantStore } from "../../storage/store/store.ts";
import { messageBytesMax } from "../../storage/tables/queued-inputs.ts";
import { agentCard } from "../a2a/card.ts";
import {
  messagesOf,
  plainText,
  readCardParams,
  readListed,
  readNamed,
  readSent,
  type SentMessage,
} from "../a2a/params.ts";
import { a2aEvents, a2aRequestExample, a2aResponseExample, cardExample } from "../a2a/reference.ts";
import { type RpcCall, RpcError, readCall, rpcCodes, rpcFailure, rpcIdOf } from "../a2a/rpc.ts";
import { findTask, readTask, type StoredTask } from "../a2a/task.ts";
import { taskList } from "../a2a/task-list.ts";
import { streamOfTask, streamOfTurn } from "../a2a/task-stream.ts";
import { TaskWatch } from "../a2a/task-watch.ts";
import type { HttpContext } from "../context.ts";
import { jsonText, type Reply } from "../exchange/reply.ts";
import { publicUrlOf } from "../public-url.ts";
import { actorFails, type RouteRequest, route } from "../route.ts";
import { streamExample } from "../stream-event.ts";
import { type StartedTurn, startTurn } from "../streams/turns.ts";
import type { Tag } from "../tags.ts";
import { queueMessage } from "../thread-message.ts";

// The A2A protocol: other agents call an agent. A context of the protocol is a thread, and a task is a run on it.

const tag: Tag = {
  name: "A2A",
  description: "Tasks for other agents, and the card that describes an agent to them.",
};
/** Max time for a stopped run to write its last batch. */
const cancelMs = 60_000;
/** Seconds that a reader may keep a card. */
const cardSeconds = 60;

const open = { additionalProperties: true };
const Version = Type.Optional(
  Type.String({ description: "`1.0` or `0.3`; the name of the method decides, other versions are refused." }),
);

/** The parts of a call, which is read field by field so that its errors have the form of the protocol. */
const RpcRequest = Type.Object(
  {
    jsonrpc: Type.Optional(Type.Unknown({ description: '`"2.0"`.' })),
    id: Type.Optional(Type.Unknown({ description: "A number, or a text of at most 256 characters." })),
    method: Type.Optional(
      Type.Unknown({
        description:
          "SendMessage, SendStreamingMessage, GetTask, ListTasks, CancelTask, SubscribeToTask or GetExtendedAgentCard; in version 0.3 message/send, message/stream, tasks/get, tasks/cancel, tasks/resubscribe or agent/getAuthenticatedExtendedCard.",
      }),
    ),
    params: Type.Optional(Type.Unknown({ description: "As the method says; other fields are ignored." })),
  },
  { ...open, examples: [a2aRequestExample] },
);

type A2aRequest = RouteRequest<Readonly<Record<string, string>>, { readonly "A2A-Version"?: string }, unknown>;

const rpc = route({
  method: "POST",
  path: "/a2a",
  summary:
    "Calls of the A2A protocol, versions 1.0 and 0.3: an agent sends messages, and reads, streams and cancels its tasks.",
  tag,
  access: "chat:write",
  headers: Type.Object({
    "A2A-Version": Version,
    "X-Svc-Hops": Type.Optional(
      Type.String({
        description: "Agents that the request has passed through; more than limits.max_peer_hops are refused.",
      }),
    ),
  }),
  query: Type.Object({ "A2A-Version": Version }),
  body: RpcRequest,
  reply: {
    description: "The JSON-RPC response: a result, or an error of the call.",
    schema: Type.Object(
      { jsonrpc: Type.Literal("2.0"), id: Type.Unknown() },
      { ...open, examples: [a2aResponseExample] },
    ),
  },
  otherReplies: [
    {
      description: "For SendStreamingMessage and SubscribeToTask: a JSON-RPC response for each event of the task.",
      contentType: "text/event-stream",
      events: a2aEvents,
      example: streamExample(a2aEvents, false),
    },
  ],
  // Errors of the call itself are answers of status 200.
  fails: [
    "missing_scopes",
    "auth_scheme_not_allowed",
    "peer_hop_limit",
    "run_queue_full",
    "queue_full",
    "conflict",
    "unresolved_secret",
    "model_not_configured",
    ...actorFails,
  ],
  refusal: (error, requestId) => rpcFailure(error, null, null, requestId),
  async handle(request, context) {
    const { body, query, exchange, requestId } = request;
    let version: A2aVersion | null = null;
    try {
      const call = readCall(body, exchange.head.headers["a2a-version"] ?? query["A2A-Version"] ?? "");
      version = call.version;
      return await answer(call, request, context);
    } catch (error) {
      const isKnown = error instanceof RpcError || SvcError.from(error).code !== "internal_error";
      if (!isKnown) context.log.error({ err: error, request_id: requestId, route: "POST /a2a" }, "request failed");
      return rpcFailure(error, version, rpcIdOf(body), requestId);
    }
  },
});

async function answer(call: RpcCall, request: A2aRequest, context: HttpContext): Promise<Reply> {
  const { tenant_id } = request.principal;
  const store = context.store.tenant(tenant_id);
  switch (call.operation) {
    case "send":
      return send(call, request, context, store);
    case "stream":
      return stream(call, request, context, store);
    case "get": {
      const { id, historyLength } = readNamed(call);
      const found = await admittedTask(id, request, context, store);
      return result(call, taskObject(call.version, await readTask(store, found, historyLength)));
    }
    case "cancel":
      return cancel(call, request, context, store);
    case "subscribe": {
      const found = await admittedTask(readNamed(call).id, request, context, store);
      // Version 0.3 has no error for a task that has ended: the caller gets a stream with the task's last state.
      if (found.run.ended_at !== null && call.version === "1.0")
        throw new RpcError(rpcCodes.unsupportedOperation, "The task has ended: read it with GetTask.");
      return streamOfTask(context, store, answered(call), found, request.requestId);
    }
    case "card": {
      const card = await cardFor(readCardParams(call), tenant_id, context);
      if (card === null) throw new RpcError(rpcCodes.cardNotConfigured, "This agent publishes no card.");
      return result(call, agentCard(call.version, card, publicUrlOf(request.exchange.head, context.settings)));
    }
    case "push":
      throw new RpcError(rpcCodes.pushNotSupported, "This agent sends no push notifications.");
    case "list":
      return result(call, await taskList(store, readListed(call), principalId(request.principal)));
  }
}

/** Sends a message, and answers with its task: at its end, or at once if the caller does not wait. */
async function send(call: RpcCall, request: A2aRequest, context: HttpContext, store: TenantStore): Promise<Reply> {
  const sent = readSent(call);
  const { turn, id } = await deliver(call, sent, request, context, store, false);
  if (sent.waits && turn?.accepted.kind === "started") await turn.answer();
  else if (sent.waits) {
    const watch = new TaskWatch(context, store, await findTask(store, id));
    request.exchange.onAborted(() => watch.close());
    await watch.settled;
  }
  const task = await readTask(store, await findTask(store, id), sent.historyLength);
  return result(call, sentResult(call.version, task));
}

/** Sends a message, and streams its task. */
async function stream(call: RpcCall, request: A2aRequest, context: HttpContext, store: TenantStore): Promise<Reply> {
  const { turn, id } = await deliver(call, readSent(call), request, context, store, true);
  if (turn?.accepted.kind === "started") return streamOfTurn(context, store, answered(call), turn);
  return streamOfTask(context, store, answered(call), await findTask(store, id), request.requestId);
}

/** The part of a call that its stream needs, which may last for hours: not the message. */
function answered({ version, rpc_id }: RpcCall): Pick<RpcCall, "version" | "rpc_id"> {
  return { version, rpc_id };
}

/** Returns the task of a call. Refuses as `findTask` does, and a caller that the agent of the task would refuse. */
async function admittedTask(
  id: string,
  { principal }: A2aRequest,
  { bus }: HttpContext,
  store: TenantStore,
): Promise<StoredTask> {
  const found = await findTask(store, id);
  const asked = { name: found.run.manifest, principal, tool: null };
  await bus.ask({ kind: "manifests", key: principal.tenant_id }, "admit", asked).catch((error: unknown) => {
    // Without its manifest a task has no rule that could refuse the caller.
    if (SvcError.from(error).code !== "unknown_manifest") throw error;
  });
  return found;
}

/** Starts a task with a message, or queues it for the running task that it names. */
async function deliver(
  call: RpcCall,
  sent: SentMessage,
  request: A2aRequest,
  context: HttpContext,
  store: TenantStore,
  streams: boolean,
): Promise<{ readonly turn: StartedTurn | null; readonly id: string }> {
  const { taskId } = sent;
  if (taskId !== null) {
    await followUp(sent, await findTask(store, taskId), request, context);
    return { turn: null, id: taskId };
  }
  const hops = hopsOf(request.exchange.head.headers["x-svc-hops"]);
  const contextId = sent.contextId ?? context.env.id();
  const turn = await startTurn(
    request,
    {
      surface: "a2a",
      manifest: sent.manifest ?? context.settings.defaultManifest,
      messages: messagesOf(sent),
      thread_suffix: a2aSuffix(contextId),
      model: null,
      template: null,
      template_args: [],
      max_tokens: null,
      temperature: null,
      include_usage: false,
      response: null,
      a2a: { version: call.version, rpc_id: call.rpc_id, streams },
      ...(hops > 0 && { hops }),
    },
    context,
  );
  return { turn, id: turn.run_id };
}

/** Returns the number of agents that a request has passed through. Throws an RpcError for another text than a number. */
function hopsOf(header = "0"): number {
  if (!/^\d{1,9}$/.test(header)) throw new RpcError(rpcCodes.invalidParams, "X-Svc-Hops must be a number.");
  return Number(header);
}

/** Queues a message for a running task. A task that waits or has ended takes none. */
async function followUp(
  sent: SentMessage,
  { run, thread }: StoredTask,
  { principal, exchange, requestId }: A2aRequest,
  context: HttpContext,
): Promise<void> {
  const { bus } = context;
  if (sent.contextId !== null && sent.contextId !== run.a2a_context)
    throw new RpcError(rpcCodes.invalidParams, "The task belongs to another contextId.");
  const text = plainText(sent);
  if (text === null) throw new RpcError(rpcCodes.contentTypeNotSupported, "A message to a running task is plain text.");
  if (Buffer.byteLength(text) > messageBytesMax) throw new SvcError("payload_too_large");
  if (run.status !== "running")
    throw new RpcError(rpcCodes.unsupportedOperation, "Only a running task takes further messages.");
  // The agent refuses a caller as it does for a new task.
  const hops = hopsOf(exchange.head.headers["x-svc-hops"]);
  const admitted = { name: run.manifest, principal, tool: null, hops };
  await bus.ask({ kind: "manifests", key: principal.tenant_id }, "admit", admitted);
  const message = { text, kind: "follow_up", run_id: run.run_id } as const;
  await queueMessage(message, thread.suffix, { principal, requestId }, context);
}

async function cancel(call: RpcCall, request: A2aRequest, context: HttpContext, store: TenantStore): Promise<Reply> {
  const { principal } = request;
  const { bus } = context;
  const { id, historyLength } = readNamed(call);
  const { run, thread } = await admittedTask(id, request, context, store);
  const ended = new RpcError(rpcCodes.taskNotCancelable, "The task has ended.");
  if (run.ended_at !== null) throw ended;
  const address = runAddress(principal.tenant_id, thread.suffix, id);
  const { aborted } = await bus.ask(address, "abort", { reason: "client" }, { deadlineMs: cancelMs });
  const task = await readTask(store, await findTask(store, id), historyLength);
  if (!aborted && task.status.state !== "canceled") throw ended;
  return result(call, taskObject(call.version, task));
}

function result({ rpc_id }: RpcCall, value: object): Reply {
  return jsonText(rpcResultText(rpc_id, value));
}

/** Returns the facts of a card, null if it is withheld. Null as tenant: for callers without credentials. */
async function cardFor(manifest: string | null, tenantId: string | null, { bus, settings }: HttpContext) {
  const asked = { name: manifest ?? settings.defaultManifest, shared: tenantId === null };
  const card = await bus.ask({ kind: "manifests", key: tenantId ?? "" }, "card", asked);
  return card.publish ? card : null;
}

const card = route({
  method: "GET",
  path: "/.well-known/agent-card.json",
  summary: "The A2A agent card of the manifest SVC_DEFAULT_MANIFEST, as the operator has it.",
  tag,
  access: "public",
  headers: Type.Object({ "A2A-Version": Version }),
  reply: {
    description: "The card of version 0.3 with the interfaces of both versions; with `A2A-Version: 1.0` that of 1.0.",
    schema: Type.Object({ name: Type.String() }, { ...open, examples: [cardExample] }),
  },
  fails: ["not_found", ...actorFails],
  async handle({ exchange: { head } }, context) {
    const facts = await cardFor(null, null, context).catch((error: unknown) => {
      const { code } = SvcError.from(error);
      if (code === "unknown_manifest" || code === "invalid_manifest") return null;
      throw error;
    });
    if (facts === null) throw new SvcError("not_found", { message: "This server publishes no agent card." });
    const version = (head.headers["a2a-version"] ?? "").startsWith("1.") ? "1.0" : "0.3";
    const body = JSON.stringify(agentCard(version, facts, publicUrlOf(head, context.settings)));
    const etag = `"${createHash("sha256").update(body).digest("base64url")}"`;
    const headers = { etag, "cache-control": `max-age=${cardSeconds}`, vary: "A2A-Version, Host" };
    if (head.headers["if-none-match"] === etag)
      return { kind: "text", status: 304, contentType: "application/json", body: "", headers };
    return jsonText(body, 200, headers);
  },
});

export const a2aRoutes = [rpc, card];
