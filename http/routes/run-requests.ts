import { runAddress } from "../../bus/address.ts";
import { SvcError } from "../../bus/errors.ts";
import type { ModelRequestBodies } from "../../bus/protocol/run.ts";
import { Type } from "../../bus/type.ts";
import { hasScopes } from "../../governance/auth/scopes.ts";
import { type CallFacts, countModelCalls } from "../../storage/tables/model-calls.ts";
import { json } from "../exchange/reply.ts";
import { actorFails, route } from "../route.ts";
import { durableRun } from "../run-record.ts";
import { EpochMs, epochMs, nullable, OpenObject } from "../schemas/common.ts";
import { digestExample, noon, questionExample, replyExample, runIdExample } from "../schemas/example-values.ts";
import { durableTag } from "../tags.ts";

// The model requests of a run, rebuilt from its context records for operators. The bodies need the scope manifests:read.

const open = { additionalProperties: true };
const Digest = Type.String({ description: "SHA-256, hexadecimal.", examples: [digestExample] });
const Words = (description: string, example: string) => nullable(Type.String({ description, examples: [example] }));

const Bodies = Type.Object(
  {
    system: Words("The whole system text.", "Answer in one sentence."),
    messages: nullable(
      Type.Array(Type.Unknown(), {
        description: "In OpenAI's format, the system message first, without images.",
        examples: [[questionExample, replyExample]],
      }),
    ),
    tools: nullable(
      Type.Array(Type.Unknown(), { examples: [[{ name: "calculator", description: "Works out an expression." }]] }),
    ),
    answer: Type.Unknown({ description: "The schema of the answer; null without one.", examples: ["6 * 7 = 42"] }),
    reply: Words("The model's answer, if no event of the thread has it.", replyExample.content),
    problems: Type.Array(Type.String(), {
      description: "Differences to the record: empty if this is exactly what was sent.",
      examples: [[]],
    }),
  },
  { description: "The request; null for callers without manifests:read." },
);

const ModelRequest = Type.Object({
  run_id: Type.String({ examples: [runIdExample] }),
  n: Type.Integer({ examples: [1] }),
  of: Type.Integer({ description: "Recorded model requests of the run.", examples: [2] }),
  purpose: Type.Union(
    ["step", "summary", "question", "decider", "judge", "screener"].map((name) => Type.Literal(name)),
  ),
  agent: Type.String({ examples: ["main"] }),
  step: Type.Integer({ examples: [1] }),
  route: Type.String({ description: "The model route of the last call.", examples: ["demo"] }),
  parameters: Type.Object({}, { additionalProperties: true, examples: [{ temperature: 0 }] }),
  digests: Type.Object(
    {
      frame: Digest,
      system: Digest,
      tools: nullable(Digest),
      answer: nullable(Digest),
    },
    open,
  ),
  shown: nullable(
    Type.Array(Type.Unknown(), {
      description:
        "The messages of the request, in order: the sequence number of an event, a range of events, the shortened start of a turn, or the digest of a text outside the log. Null without a thread.",
      examples: [[]],
    }),
  ),
  cleared: nullable(OpenObject),
  files: Type.Array(Type.Unknown(), { description: "Digests of the images in the request.", examples: [[]] }),
  tries: Type.Array(
    Type.Object({
      route: Type.String({ examples: ["demo"] }),
      outcome: Type.String({ examples: ["ok"] }),
      ms: Type.Integer({ examples: [900] }),
    }),
  ),
  started: EpochMs,
  first_token: nullable(EpochMs, { examples: [noon + 200] }),
  ended: epochMs(noon + 900),
  outcome: Type.String({ examples: ["ok"] }),
  stop_reason: nullable(Type.String({ examples: ["end_turn"] })),
  usage: nullable(
    Type.Object(
      {
        input: Type.Integer(),
        output: Type.Integer(),
        cacheRead: Type.Integer(),
        cacheWrite: Type.Integer(),
      },
      {
        examples: [{ input: 1186, output: 55, cacheRead: 0, cacheWrite: 0 }],
      },
    ),
  ),
  estimated: Type.Boolean(),
  cost_usd: nullable(Type.Number()),
  bodies: nullable(Bodies),
});

const runRequest = route({
  method: "GET",
  path: "/runs/{run_id}/requests/{n}",
  summary: "The n-th model request of a run: digests, and for callers with manifests:read the complete request.",
  tag: durableTag,
  access: ["runs:read"],
  tenancy: [{ of: "run" }],
  params: Type.Object({
    run_id: Type.String({ description: "The id of a run, durable or not.", examples: [runIdExample] }),
    n: Type.String({
      pattern: "^[1-9][0-9]{0,8}$",
      description: "From 1, in the order in which they ended.",
      examples: ["1"],
    }),
  }),
  reply: { description: "The request.", schema: ModelRequest },
  fails: ["run_not_found", "request_not_found", ...actorFails],
  async handle({ params, principal }, { store, bus }) {
    const { run_id } = params;
    const n = Number(params.n);
    const { tenant_id } = principal;
    const tenant = store.tenant(tenant_id);
    const of = await countModelCalls(tenant, run_id);
    if (of === 0 && (await durableRun(tenant, run_id)) === null) throw new SvcError("run_not_found");
    const with_bodies = hasScopes(principal, ["manifests:read"]);
    const told = of < n ? null : await bus.ask(runAddress(tenant_id, null, run_id), "request", { n, with_bodies });
    if (told === null) throw new SvcError("request_not_found");
    const {
      files = [],
      estimated = false,
      at: _at,
      chars: _chars,
      messages: _messages,
      cleared = null,
      ...facts
    } = JSON.parse(told.facts) as CallFacts;
    const digests = { ...facts.digests, frame: told.frame };
    return json({ run_id, n, of, ...facts, digests, cleared, files, estimated, bodies: bodiesOf(told.bodies) });
  },
});

function bodiesOf(bodies: ModelRequestBodies | null) {
  if (bodies === null) return null;
  const { messages, tools, answer } = bodies;
  return { ...bodies, messages: parsed(messages), tools: parsed(tools), answer: parsed(answer) };
}

function parsed(text: string | null): unknown {
  return text === null ? null : JSON.parse(text);
}

export const runRequestRoutes = [runRequest];
