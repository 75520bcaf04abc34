import { type Address, threadAddress } from "../../bus/address.ts";
import { Type } from "../../bus/type.ts";
import { answerAsked } from "../asked-waits.ts";
import { json } from "../exchange/reply.ts";
import { actorFails, route } from "../route.ts";
import { OpenObject } from "../schemas/common.ts";
import { callIdExample } from "../schemas/example-values.ts";
import { chatTag } from "../tags.ts";
import { threadFilter } from "../thread-id.ts";
import { screenAnswer, screenFails } from "../thread-message.ts";

// Answers of clients to questions of a run (client tools and UI questions). An answer without a waiting run is no error: it may be late.

const noteMax = 2048;
const AskedThread = Type.String({
  description: "The thread's suffix, or the `thread_id` of the request's frame.",
  examples: ["tour"],
});
const Signaled = Type.Boolean({ description: "False if no run waits for it: it is late, or not the first answer." });

const toolResult = route({
  method: "POST",
  path: "/chat/tool_result",
  summary: "Sends the result of a client tool call, which a run requested by tool_request.",
  tag: chatTag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id, tool_call_id: "call" }) }],
  drives: "thread",
  body: Type.Object(
    {
      thread_id: AskedThread,
      tool_call_id: Type.String({
        minLength: 1,
        maxLength: 256,
        description: "`id` of the tool_request.",
        examples: [callIdExample],
      }),
      content: Type.Union([Type.String(), OpenObject, Type.Array(Type.Unknown())], {
        default: "",
        description: "The result, at most 256 KiB. The model reads other values than a text as JSON.",
        examples: ["The page is open."],
      }),
      error: Type.Boolean({ default: false, description: "The call failed; `content` is the reason." }),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "Whether a run was waiting for it.",
    schema: Type.Object({
      ok: Type.Boolean(),
      signaled: Signaled,
      thread_id: Type.String({ examples: ["default:tour"] }),
      tool_call_id: Type.String({ examples: [callIdExample] }),
    }),
  },
  fails: ["invalid_thread_id", "payload_too_large", ...actorFails],
  async handle({ body, principal }, context) {
    const { tool_call_id, content, error } = body;
    const suffix = threadFilter(body.thread_id, principal.tenant_id) ?? "";
    const value = { content: typeof content === "string" ? content : JSON.stringify(content), error };
    const asked = { kind: "client_tool", asked_as: tool_call_id } as const;
    const signaled = await answerAsked(context, principal, suffix, { asked, value });
    return json({ ok: true, signaled, thread_id: threadAddress(principal.tenant_id, suffix).key, tool_call_id });
  },
});

const ui = route({
  method: "POST",
  path: "/chat/ui",
  summary: "Answers a question, which a run asked by ui_request.",
  tag: chatTag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id, request_id: "question" }) }],
  drives: "thread",
  body: Type.Object(
    {
      thread_id: AskedThread,
      request_id: Type.String({
        minLength: 1,
        maxLength: 64,
        description: "Of the ui_request.",
        examples: ["question-1"],
      }),
      value: Type.Unsafe<unknown>({
        default: null,
        examples: ["today"],
        description:
          "true or false to a confirm, one of `options` to a select, anything but null to an input; at most 256 KiB.",
      }),
      cancelled: Type.Boolean({ default: false, description: "The user does not want to answer." }),
      note: Type.String({ default: "", maxLength: noteMax, description: "For the model." }),
    },
    { additionalProperties: false },
  ),
  reply: {
    description: "Whether a run was waiting for it.",
    schema: Type.Object({
      ok: Type.Boolean(),
      signaled: Signaled,
      thread_id: Type.String({ examples: ["default:tour"] }),
      request_id: Type.String({ examples: ["question-1"] }),
    }),
  },
  fails: ["invalid_thread_id", "payload_too_large", ...screenFails, ...actorFails],
  async handle({ body, principal, requestId }, context) {
    const { request_id, value, cancelled, note } = body;
    const suffix = threadFilter(body.thread_id, principal.tenant_id) ?? "";
    const asked = { kind: "question", asked_as: request_id } as const;
    const screen = (part: unknown, run: Address<"run"> | null) =>
      screenAnswer(part, suffix, run, { principal, requestId }, context);
    const signaled = await answerAsked(context, principal, suffix, {
      asked,
      value: { value, cancelled, note },
      screened: async (run) => ({ value: await screen(value, run), cancelled, note: await screen(note, run) }),
    });
    return json({ ok: true, signaled, thread_id: threadAddress(principal.tenant_id, suffix).key, request_id });
  },
});

export const answerRoutes = [toolResult, ui];
