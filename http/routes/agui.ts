import { SvcError } from "../../bus/errors.ts";
import { toJsonText } from "../../bus/protocol/json-text.ts";
import { Type } from "../../bus/type.ts";
import { type Fields, runMessages, runOptions } from "../agui/run-input.ts";
import { type RouteRequest, route } from "../route.ts";
import { aguiEvents } from "../schemas/agui-events.ts";
import { OpenObject } from "../schemas/common.ts";
import { streamExample } from "../stream-event.ts";
import { streamTurn, type TurnFields } from "../streams/turns.ts";
import { aguiTag } from "../tags.ts";
import { checkThreadSuffix } from "../thread-id.ts";
import { turnFails } from "./chat.ts";

const listMax = 10_000;
const noEffect = "Accepted without effect.";

/** The body of a run in AG-UI. Clients of later versions may send further fields. */
const RunInput = Type.Object(
  {
    threadId: Type.String({ description: "The thread's suffix.", examples: ["tour"] }),
    runId: Type.String({ minLength: 1, maxLength: 256, description: "The client's id of the run, for its events." }),
    messages: Type.Array(OpenObject, {
      minItems: 1,
      maxItems: listMax,
      description:
        "On a known thread only the last user message and the results of open calls count, because the server has the history.",
    }),
    tools: Type.Optional(
      Type.Array(OpenObject, {
        maxItems: 128,
        description: "Tools of the client, in addition to the manifest's. A call of one ends the run.",
      }),
    ),
    context: Type.Optional(
      Type.Array(Type.Object({ description: Type.String(), value: Type.String() }, { additionalProperties: true }), {
        maxItems: 256,
        description: "Texts of the application, added to the last user message.",
      }),
    ),
    state: Type.Optional(Type.Unknown({ description: noEffect })),
    forwardedProps: Type.Optional(Type.Unknown({ description: noEffect })),
    parentRunId: Type.Optional(Type.Unknown({ description: noEffect })),
    protocolVersion: Type.Optional(Type.Unknown({ description: noEffect })),
    resume: Type.Optional(Type.Array(OpenObject, { description: "Only an empty list: svc makes no interrupts." })),
  },
  {
    additionalProperties: true,
    description: "Other fields are accepted without effect.",
    examples: [
      {
        ...{ threadId: "tour", runId: "run-1", tools: [], context: [], state: {}, forwardedProps: {} },
        messages: [{ id: "1", role: "user", content: "What is 6 * 7?" }],
      },
    ],
  },
);

const run = route({
  method: "POST",
  path: "/agui/{manifest}",
  summary: "Runs a turn and streams it in the protocol AG-UI.",
  tag: aguiTag,
  access: "chat:write",
  tenancy: [{ of: "manifest" }],
  drives: "turn",
  params: Type.Object({ manifest: Type.String({ description: "Name of the manifest.", examples: ["quick"] }) }),
  body: RunInput,
  reply: {
    description: "Events of the run. RUN_FINISHED or RUN_ERROR is the last one.",
    contentType: "text/event-stream",
    events: aguiEvents,
    example: streamExample(aguiEvents, false),
  },
  fails: [...turnFails, "unsupported_parameter", "run_queue_full", "run_goes_on", "run_not_found"],
  handle(request, context) {
    const { body, params } = request;
    if ((body.resume ?? []).length > 0) throw new SvcError("unsupported_parameter", { subject: "resume" });
    const options = runOptions((body.tools ?? []) as readonly Fields[]);
    const fields: TurnFields = {
      surface: "agui",
      manifest: params.manifest,
      messages: runMessages(body.messages as readonly Fields[], body.context ?? []),
      thread_suffix: checkThreadSuffix(body.threadId),
      model: null,
      template: null,
      template_args: [],
      max_tokens: null,
      temperature: null,
      include_usage: false,
      response: null,
      agui: { threadId: body.threadId, runId: body.runId },
      ...(options && { options: toJsonText(options) }),
    };
    return streamTurn(request as RouteRequest<unknown, unknown, unknown>, fields, context);
  },
});

export const aguiRoutes = [run];
