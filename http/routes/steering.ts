import { threadAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import { workspaceNote } from "../../bus/frames/workspace-note.ts";
import { Type } from "../../bus/type.ts";
import { messageBytesMax } from "../../storage/tables/queued-inputs.ts";
import { json } from "../exchange/reply.ts";
import { actorFails, route } from "../route.ts";
import { nullable } from "../schemas/common.ts";
import { eventIdExample } from "../schemas/example-values.ts";
import { chatTag } from "../tags.ts";
import { checkThreadSuffix } from "../thread-id.ts";
import { queueMessage, screenFails } from "../thread-message.ts";

// Messages to a thread outside its turns. A live run reads them between two steps; without a run they wait for the next one.

const ThreadId = Type.String({
  description: "The thread's suffix. A missing thread is created, and listed once it has an event.",
  examples: ["tour"],
});

const chatSteer = route({
  method: "POST",
  path: "/chat/steer",
  summary: "Sends a message to the live run of a thread, or to its next one.",
  tag: chatTag,
  access: "chat:write",
  tenancy: [
    // The request creates a thread of the caller, here and for an unknown id.
    { of: "thread", body: (id) => ({ thread_id: id, text: "mine", kind: "follow_up" }) },
  ],
  drives: "thread",
  body: Type.Object(
    {
      thread_id: ThreadId,
      text: Type.String({
        minLength: 1,
        description: "At most 64 KiB; at most 64 messages wait for one thread.",
        examples: ["Show the steps, too."],
      }),
      kind: Type.Union([Type.Literal("steer"), Type.Literal("follow_up")], {
        default: "steer",
        description:
          "`steer`: running calls finish, the others are skipped, and the model reads it next. `follow_up`: another turn at the end of the run.",
      }),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "The message is stored and queued.",
    schema: Type.Object({
      queued: Type.String({ examples: ["steer"] }),
      thread_id: Type.String({ examples: ["default:tour"] }),
    }),
  },
  fails: [
    "invalid_thread_id",
    "payload_too_large",
    "queue_full",
    "thread_too_large",
    "storage_quota_exceeded",
    "conflict",
    ...screenFails,
    ...actorFails,
  ],
  async handle({ body, principal, requestId }, context) {
    const { text, kind } = body;
    const suffix = checkThreadSuffix(body.thread_id);
    if (Buffer.byteLength(text) > messageBytesMax) throw new SvcError("payload_too_large");
    const queued = await queueMessage({ text, kind }, suffix, { principal, requestId }, context);
    return json({ queued, thread_id: threadAddress(principal.tenant_id, suffix).key });
  },
});

const pathCharsMax = 4_096;
const pathRules = { minLength: 1, maxLength: pathCharsMax, description: "Without control characters." };

const workspaceEdited = route({
  method: "POST",
  path: "/chat/workspace/edited",
  summary: "Reports to the model that the user edited a file of the workspace.",
  tag: chatTag,
  access: "chat:write",
  tenancy: [
    // Without to_path, which is for renamed files only, the note would create a thread of the caller.
    { of: "thread", body: (id) => ({ thread_id: id, path: "a", to_path: "b" }) },
  ],
  drives: "thread",
  body: Type.Object(
    {
      thread_id: ThreadId,
      path: Type.String({ ...pathRules, examples: ["notes/today.md"] }),
      op: Type.Union([Type.Literal("write"), Type.Literal("delete"), Type.Literal("rename")], { default: "write" }),
      bytes: Type.Optional(Type.Integer({ minimum: 0, description: "Size of the file; not for a deleted one." })),
      to_path: Type.Optional(Type.String(pathRules)),
    },
    { additionalProperties: false },
  ),
  reply: {
    description:
      "`queued`: the thread has a run, and its model reads a note before its next call. `recorded`: the note is in the thread's log.",
    example: { status: "recorded" },
    schema: Type.Object({
      status: Type.String({ examples: ["completed"] }),
      thread_id: Type.String({ examples: ["default:tour"] }),
      event_id: nullable(Type.String({ examples: [eventIdExample] })),
    }),
  },
  fails: ["invalid_thread_id", "queue_full", "thread_too_large", "storage_quota_exceeded", "conflict", ...actorFails],
  async handle({ body, principal }, { bus }) {
    const { path, op, bytes = null, to_path = null } = body;
    const address = threadAddress(principal.tenant_id, checkThreadSuffix(body.thread_id));
    checkPath("path", path);
    if (to_path !== null) checkPath("to_path", to_path);
    if (op === "delete" && bytes !== null) throw misfit("bytes", "is not for a file that is deleted");
    if (op === "rename" && to_path === null) throw misfit("to_path", "says where a renamed file is");
    if (op !== "rename" && to_path !== null) throw misfit("to_path", "is for renamed files only");
    const taken = await bus.ask(address, "note", workspaceNote({ path, op, bytes, to_path }));
    return json({ status: taken.status, thread_id: address.key, event_id: taken.event_id });
  },
});

function checkPath(field: string, path: string): void {
  if (/\p{Cc}/u.test(path) || !path.isWellFormed()) throw misfit(field, "has a control character in it");
}

function misfit(field: string, msg: string): SvcError {
  return new SvcError("invalid_request", { detail: [{ loc: ["body", field], msg, type: "value_error" }] });
}

export const steeringRoutes = [chatSteer, workspaceEdited];
