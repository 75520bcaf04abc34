import assert from "node:assert/strict";
import { type MockAnthropic, mockAnthropicKey, startMockAnthropic } from "../mock-anthropic.ts";
import { type MockModel, startMockModel } from "../mock-model.ts";
import { manifestEnv, startServer, type TestServer } from "../server.ts";
import type { Cleanup } from "../temp.ts";
import { type Family, type Json, StandIn } from "./family.ts";
import { gateways } from "./gateways.ts";
import { gemini } from "./gemini.ts";
import { local } from "./local.ts";
import { mistral } from "./mistral.ts";
import { openAi } from "./openai.ts";
import { thinkers } from "./thinkers.ts";

/** A case of the table. Its title is "<subject> <verb> <result> [when <condition>]". */
export interface FamilyCase {
  readonly title: string;
  /** The route that it talks to; default the family's first. */
  readonly route?: string;
  run(talk: Talk): Promise<void>;
}

/** The partner of a case: a server with all families, and one model of them. */
export interface Talk {
  readonly server: TestServer;
  /** The stand-in of the case's model; of Anthropic see `anthropic`. */
  readonly model: StandIn;
  readonly anthropic: MockAnthropic;
  /** The stand-in of another route. */
  other(route: string): StandIn;
  /** A turn on the thread of this case; its body. Fails unless its status is 200. `manifest` is the route by default. */
  chat(text: string, fields?: Json): Promise<Json & { readonly final: Json | null }>;
  /** POST /v1/chat/completions, stateless unless `user` is given; its message. */
  complete(fields: Json): Promise<Json>;
  /** The name of the case's thread. */
  readonly thread: string;
}

const families: readonly Family[] = [openAi, gemini, mistral, thinkers, gateways, local];

/** Starts the server and the stand-ins. A manifest of each route's name has the calculator; `more` adds manifests. */
export async function startFamilies(
  atEnd: Cleanup,
  more: Readonly<Record<string, object>>,
): Promise<(title: string, route: string) => Talk> {
  const mock = await startMockModel();
  const anthropic = await startMockAnthropic();
  atEnd.after(() => mock.close());
  atEnd.after(() => anthropic.close());
  const standIns = new Map<string, StandIn>();
  for (const family of families)
    for (const [route, { model }] of Object.entries(family.routes))
      standIns.set(route, new StandIn(family, model, mock));
  const server = await startServer({ atEnd, env: familyEnv(atEnd, mock, anthropic, more) });
  const standIn = (route: string): StandIn => standIns.get(route) ?? noStandIn;
  const noStandIn = new StandIn({ routes: {}, refusalOf: () => null }, "none", mock);

  return (title, route) => {
    const thread = title.replaceAll(/[^A-Za-z0-9]+/g, "-").slice(0, 60);
    return {
      ...{ server, anthropic, thread },
      model: standIn(route),
      other: standIn,
      async chat(text, fields = {}) {
        const messages = [{ role: "user", content: text }];
        const answer = await server.post("/chat", { manifest: route, messages, thread_id: thread, ...fields });
        assert.equal(answer.status, 200, answer.text);
        return answer.json;
      },
      async complete(fields) {
        const answer = await server.post("/v1/chat/completions", { model: route, ...fields });
        assert.equal(answer.status, 200, answer.text);
        return answer.json.choices[0].message;
      },
    };
  };
}

function familyEnv(
  atEnd: Cleanup,
  mock: MockModel,
  anthropic: MockAnthropic,
  more: Readonly<Record<string, object>>,
): Record<string, string> {
  const own = families.flatMap((family) => family.own ?? []);
  const routes: Record<string, { provider: string; model: string }> = {
    claude: { provider: "anthropic", model: "claude-sonnet-5" },
    ...Object.assign({}, ...families.map((family) => family.routes)),
  };
  const providers = new Set(Object.values(routes).map(({ provider }) => provider));
  const hosted = [...providers].filter((name) => name !== "anthropic" && !own.includes(name));
  const manifests = Object.keys(routes).map((id) => [id, { model: { id }, tools: ["calculator"] }]);
  return {
    SVC_MODEL_PROVIDER_OPTIONS: JSON.stringify({
      ...Object.fromEntries(hosted.map((name) => [name, { base_url: mock.url }])),
      anthropic: { base_url: anthropic.url, api_key: mockAnthropicKey },
    }),
    SVC_MODEL_PROVIDERS: JSON.stringify(Object.fromEntries(own.map((name) => [name, { base_url: mock.url }]))),
    SVC_MODEL_ROUTES: JSON.stringify(routes),
    ...manifestEnv(atEnd, { ...Object.fromEntries(manifests), ...more }),
  };
}
