import { Type } from "../../bus/type.ts";
import { actorFails, route } from "../route.ts";
import { ThreadId } from "../schemas/session.ts";
import { answerTurn } from "../streams/turns.ts";
import { chatTag } from "../tags.ts";
import { checkThreadSuffix } from "../thread-id.ts";

const ask = route({
  method: "POST",
  path: "/chat/ask",
  summary: "Answers a question from the content of a thread, without changing the thread.",
  tag: chatTag,
  access: "chat:write",
  tenancy: [{ of: "thread", body: (id) => ({ thread_id: id, question: "what?" }) }],
  body: Type.Object(
    {
      thread_id: ThreadId,
      question: Type.String({ minLength: 1, maxLength: 8_000, examples: ["What was asked first?"] }),
    },
    { additionalProperties: false },
  ),
  reply: {
    description:
      "The answer of one model call without tools; with status `not_in_context`, and with `withheld` if a control refused it, it is empty. A live run of the thread is not affected.",
    schema: Type.Object({
      thread_id: Type.String({ examples: ["default:tour"] }),
      status: Type.Union([Type.Literal("answered"), Type.Literal("not_in_context"), Type.Literal("withheld")]),
      answer: Type.String({ examples: ["6 * 7 = 42"] }),
      usage: Type.Object(
        {},
        {
          additionalProperties: true,
          description: "As in a turn; empty if there is none.",
          examples: [
            {
              input: 1186,
              output: 55,
              cacheRead: 0,
              cacheWrite: 0,
              totalTokens: 1241,
              cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
            },
          ],
        },
      ),
    }),
  },
  fails: [
    "thread_too_large",
    "invalid_thread_id",
    "unknown_thread",
    "manifest_required",
    "unknown_manifest",
    "invalid_manifest",
    "auth_scheme_not_allowed",
    "missing_scopes",
    "unresolved_secret",
    "model_not_configured",
    "model_provider_error",
    ...actorFails,
  ],
  handle(request, context) {
    const { thread_id, question } = request.body;
    const fields = {
      surface: "ask" as const,
      manifest: "",
      messages: [{ role: "user", content: question }],
      thread_suffix: null,
      side_of: checkThreadSuffix(thread_id),
      model: null,
      template: null,
      template_args: [],
      max_tokens: null,
      temperature: null,
      include_usage: false,
      response: null,
    };
    return answerTurn(request, fields, context);
  },
});

export const askRoutes = [ask];
